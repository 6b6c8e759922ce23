package egress

import (
	"bytes"
	"errors"
	"io"
)

// finder reads a stream and finds texts in it, also those that come in pieces.
// Bytes that may be the beginning of a text are held back until the next ones have
// come, and no others: a stream of events is not delayed.
type finder struct {
	from  io.Reader
	texts [][]byte
	// found is called with each text that occurs, in place of which asterisks are
	// read. Its error ends the stream before the text.
	found func(text []byte) error

	buffer []byte
	ready  []byte // what may be read
	held   int    // bytes after ready that may begin a text
	err    error
}

// Read implements io.Reader.
func (f *finder) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(f.ready) == 0 {
		if f.err != nil {
			return 0, f.err
		}
		f.fill()
	}
	n := copy(p, f.ready)
	f.ready = f.ready[n:]
	return n, nil
}

// fill reads on. Nothing is ready before it.
func (f *finder) fill() {
	if f.buffer == nil {
		longest := 0
		for _, text := range f.texts {
			longest = max(longest, len(text))
		}
		f.buffer = make([]byte, longest+copyBuffer)
	}
	// What is held back is at the end of what was ready, which ends with it.
	if f.held > 0 {
		held := f.ready[len(f.ready) : len(f.ready)+f.held]
		copy(f.buffer, held)
	}
	n, err := f.from.Read(f.buffer[f.held:])
	got := f.buffer[:f.held+n]
	for _, text := range f.texts {
		for rest := got; ; {
			at := bytes.Index(rest, text)
			if at < 0 {
				break
			}
			if failed := f.found(text); failed != nil {
				f.ready, f.held, f.err = nil, 0, failed
				return
			}
			copy(rest[at:], bytes.Repeat([]byte("*"), len(text)))
			rest = rest[at+len(text):]
		}
	}
	if f.held = 0; err == nil {
		f.held = f.beginning(got)
	}
	f.ready, f.err = got[:len(got)-f.held], err
}

// beginning returns how many bytes at the end of got may begin a text.
func (f *finder) beginning(got []byte) int {
	most := 0
	for _, text := range f.texts {
		end := got[max(0, len(got)-len(text)+1):]
		for {
			at := bytes.IndexByte(end, text[0])
			if at < 0 {
				break
			}
			if end = end[at:]; bytes.HasPrefix(text, end) {
				most = max(most, len(end))
				break
			}
			end = end[1:]
		}
	}
	return most
}

// errPlaceholder ends the body of a request that holds a placeholder.
var errPlaceholder = errors.New("the body holds a placeholder of a credential")
