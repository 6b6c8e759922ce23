package egress

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

// finder reads a stream and finds texts in it, also if a text is split across reads. It holds back
// only bytes that may be the beginning of a text, until the next bytes arrive. So a stream of
// events is not delayed.
type finder struct {
	from  io.Reader
	texts [][]byte
	// found is called with each text that occurs. The reader gets asterisks instead of the text. If
	// found returns an error, the stream ends before the text.
	found func(text []byte) error

	buffer []byte
	ready  []byte // bytes that may be read
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

// fill reads more input. It is called when no bytes are ready.
func (f *finder) fill() {
	if f.buffer == nil {
		f.texts = longestFirst(f.texts)
		longest := 0
		if len(f.texts) > 0 {
			longest = len(f.texts[0])
		}
		f.buffer = make([]byte, longest+copyBuffer)
	}
	// The held bytes directly follow the ready ones.
	if f.held > 0 {
		held := f.ready[len(f.ready) : len(f.ready)+f.held]
		copy(f.buffer, held)
	}
	n, err := f.from.Read(f.buffer[f.held:])
	got := f.buffer[:f.held+n]
	held := 0
	for _, text := range f.texts {
		for at := 0; ; at += len(text) {
			next := bytes.Index(got[at:], text)
			if next < 0 || at+next >= len(got)-held {
				break // no text begins here, or a longer one may
			}
			at += next
			if failed := f.found(text); failed != nil {
				f.ready, f.held, f.err = nil, 0, failed
				return
			}
			copy(got[at:], bytes.Repeat([]byte("*"), len(text)))
		}
		if err == nil {
			held = max(held, beginning(got, text))
		}
	}
	f.ready, f.held, f.err = got[:len(got)-held], held, err
}

// beginning returns how many bytes at the end of got may be the beginning of a text.
func beginning(got, text []byte) int {
	end := got[max(0, len(got)-len(text)+1):]
	for {
		at := bytes.IndexByte(end, text[0])
		if at < 0 {
			return 0
		}
		if end = end[at:]; bytes.HasPrefix(text, end) {
			return len(end)
		}
		end = end[1:]
	}
}

// longestFirst sorts texts by length. One text may be a prefix of another: if the shorter one were
// replaced first, the rest of the longer one would reach the reader.
func longestFirst(texts [][]byte) [][]byte {
	return slices.SortedStableFunc(slices.Values(texts), func(a, b []byte) int { return len(b) - len(a) })
}

// errPlaceholder ends a request body that contains a placeholder.
var errPlaceholder = errors.New("the body holds a placeholder of a credential")
