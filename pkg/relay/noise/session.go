package noise

import (
	"fmt"

	"github.com/flynn/noise"
)

// Session seals and opens the records of a stream. Each direction counts its
// records; the count is not sent, so they must be opened in the order in which
// they were sealed, without a gap. One goroutine may seal while another opens.
type Session struct {
	redacted
	// Against crypto/cipher they cost an allocation of 16 bytes per record,
	// and no time that could be measured (BenchmarkRecord).
	send, receive *noise.CipherState
	failed        error // of Open
}

// Seal appends the record of plaintext to dst: RecordOverhead bytes more than
// plaintext, which has at most 65519 bytes, and at most MaxChunk if it is part
// of a message. The record must be sent: if one is left out, the peer cannot
// open any later one.
func (s *Session) Seal(dst, plaintext []byte) ([]byte, error) {
	if len(plaintext) > maxNoise-tagSize {
		return nil, errPlaintextLarge
	}
	record, err := s.send.Encrypt(dst, nil, plaintext)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTransport, err)
	}
	return record, nil
}

// Open appends the plaintext of a record to dst, which may be record[:0]. An
// error is final: the record was altered, or others before it are missing, and
// every later call returns the same.
func (s *Session) Open(dst, record []byte) ([]byte, error) {
	if s.failed != nil {
		return nil, s.failed
	}
	plaintext, err := s.open(dst, record)
	s.failed = err
	return plaintext, err
}

func (s *Session) open(dst, record []byte) ([]byte, error) {
	switch {
	case len(record) < tagSize:
		return nil, errCiphertextShort
	case len(record) > maxNoise:
		return nil, errCiphertextLarge
	}
	plaintext, err := s.receive.Decrypt(dst, nil, record)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTransport, errDecrypt)
	}
	return plaintext, nil
}
