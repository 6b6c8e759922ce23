package noise

import (
	"encoding/binary"
	"iter"
)

// Chunks splits a message into the plaintexts of its records, of at most MaxChunk bytes. The
// message is preceded by its length, 32 bits big endian. A chunk is valid until the next one is
// requested. For a message that is empty or longer than MaxMessage the error is an ErrFraming.
func Chunks(message []byte) (iter.Seq[[]byte], error) {
	switch {
	case len(message) == 0:
		return nil, errInvalidLength
	case len(message) > MaxMessage:
		return nil, errMessageLarge
	}
	return func(yield func([]byte) bool) {
		// Only the first chunk is copied, to put the length in front of it.
		n := min(len(message), MaxChunk-headerSize)
		first := binary.BigEndian.AppendUint32(make([]byte, 0, headerSize+n), uint32(len(message)))
		if !yield(append(first, message[:n]...)) {
			return
		}
		for rest := message[n:]; len(rest) > 0; rest = rest[n:] {
			n = min(len(rest), MaxChunk)
			if !yield(rest[:n:n]) {
				return
			}
		}
	}, nil
}

// MessageReader reassembles messages from the plaintexts of records, wherever they were split. The
// zero MessageReader expects the beginning of a message. It allocates memory as bytes arrive, not
// according to the announced length: at most twice the size of the received bytes. Only one
// goroutine at a time may use it.
type MessageReader struct {
	header  [headerSize]byte
	got     int    // bytes of header
	length  int    // the length in the complete header
	message []byte // the part that has arrived
	failed  error
}

// Read takes the plaintext of the next record, which may be empty, and calls emit with each message
// that it completes. emit may keep the message. An error, which is an ErrFraming or emit's error,
// is final: every later call returns the same error.
func (r *MessageReader) Read(plaintext []byte, emit func(message []byte) error) error {
	if r.failed == nil {
		r.failed = r.read(plaintext, emit)
	}
	return r.failed
}

func (r *MessageReader) read(plaintext []byte, emit func([]byte) error) error {
	if len(plaintext) > MaxChunk {
		return errRecordLarge
	}
	// Codex CLI appends a record to the earlier ones before it parses them.
	if r.got+len(r.message)+len(plaintext) > headerSize+MaxMessage {
		return errReassemblyLarge
	}
	for len(plaintext) > 0 {
		if r.got < headerSize {
			n := copy(r.header[r.got:], plaintext)
			plaintext = plaintext[n:]
			if r.got += n; r.got < headerSize {
				return nil
			}
			length := binary.BigEndian.Uint32(r.header[:])
			if length == 0 || length > MaxMessage {
				return errInvalidLength
			}
			r.length = int(length)
		}
		n := min(len(plaintext), r.length-len(r.message))
		r.append(plaintext[:n])
		plaintext = plaintext[n:]
		if len(r.message) == r.length {
			message := r.message
			r.got, r.length, r.message = 0, 0, nil
			if err := emit(message); err != nil {
				return err
			}
		}
	}
	return nil
}

// append adds to the message. Its memory doubles until the whole message fits.
func (r *MessageReader) append(part []byte) {
	if need := len(r.message) + len(part); need > cap(r.message) {
		grown := make([]byte, len(r.message), min(r.length, max(need, 2*cap(r.message), trusted)))
		copy(grown, r.message)
		r.message = grown
	}
	r.message = append(r.message, part...)
}
