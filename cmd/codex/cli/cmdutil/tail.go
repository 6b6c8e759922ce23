package cmdutil

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
)

// maxSaid bounds the stderr of a program that is kept to explain a failure, in bytes: some lines.
const maxSaid = 2 << 10

// Tail retains the end of a program's output. One goroutine writes to it, and another one reads.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *Tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text...)
	t.text = t.text[max(len(t.text)-maxSaid, 0):]
	return len(text), nil
}

// Explain adds the last line that the program wrote to an error.
func (t *Tail) Explain(err error) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := bytes.Split(bytes.TrimSpace(t.text), []byte("\n"))
	if last := bytes.TrimSpace(lines[len(lines)-1]); len(last) > 0 {
		return fmt.Sprintf("%v; the program said: %s", err, last)
	}
	return strings.Join(append([]string{err.Error()}, causes(err)...), ": ")
}
