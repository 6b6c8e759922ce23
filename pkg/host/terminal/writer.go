package terminal

import (
	"bytes"
	"io"
	"sync"
	"unicode/utf8"
)

// Writer writes text with invisible characters made visible, like Text, but it does not change line
// breaks and tabs. At the end of a line it removes a carriage return before the line feed. Several
// goroutines may use it.
type Writer struct {
	mu   sync.Mutex
	to   io.Writer
	rest []byte // the beginning of a character, or a carriage return
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// Write writes all of b, except for an incomplete character at its end, which it keeps for the next
// call.
func (w *Writer) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) == 0 && isPlain(b) { // as lines of a log are
		return w.to.Write(b)
	}
	text := b
	if len(w.rest) > 0 {
		text = append(w.rest, b...)
		w.rest = nil
	}
	end := len(text) - incomplete(text)
	w.rest = append(w.rest, text[end:]...)
	text = bytes.ReplaceAll(text[:end], []byte("\r\n"), []byte("\n"))
	if _, err := w.to.Write(visible(nil, string(text), true)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// isPlain reports whether text needs no change to be visible.
func isPlain(text []byte) bool {
	for _, b := range text {
		if (b < ' ' || b > '~') && b != '\n' && b != '\t' {
			return false
		}
	}
	return true
}

// incomplete returns how many bytes at the end of text are the beginning of an incomplete
// character.
func incomplete(text []byte) int {
	if n := len(text); n > 0 && text[n-1] == '\r' {
		return 1
	}
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if at := len(text) - back; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				return back
			}
			return 0
		}
	}
	return 0
}
