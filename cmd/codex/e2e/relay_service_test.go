//go:build linux

package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// service is a rendezvous service that can be killed and started again at the
// same address. It is for one goroutine at a time, but for its log.
type service struct {
	args []string // without --listen
	addr string   // HOST:PORT, once it has run
	log  tail
	cmd  *exec.Cmd // nil: it does not run
}

// start starts it and returns when it listens. An address that somebody else has
// taken meanwhile is waited for.
func (s *service) start(ctx context.Context) error {
	for end := time.Now().Add(patience); ; {
		err := s.startOnce()
		switch {
		case err == nil, ctx.Err() != nil:
			return err
		case s.addr == "", !strings.Contains(s.log.String(), "address already in use"), time.Now().After(end):
			return fmt.Errorf("%w: %s", err, &s.log)
		}
	}
}

func (s *service) startOnce() error {
	listen := s.addr
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	cmd := exec.Command(codex, append([]string{"rendezvous", "--listen", listen}, s.args...)...)
	cmd.Stderr = &s.log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "http://")
	if err == nil && !ok {
		err = fmt.Errorf("first line %q", line)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if errors.Is(err, io.EOF) {
			err = errors.New("the service has ended")
		}
		return err
	}
	s.cmd, s.addr = cmd, addr
	return nil
}

// kill ends it as a crash would.
func (s *service) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// tail keeps the end of what is written.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// tailBytes is how much it keeps.
const tailBytes = 16 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-tailBytes):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
