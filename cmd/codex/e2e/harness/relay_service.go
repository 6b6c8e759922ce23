package harness

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

// Service is a rendezvous service that can be killed and started again at the same address. One
// goroutine at a time may use it, except for its log.
type Service struct {
	Args []string // arguments without --listen
	Addr string   // HOST:PORT, after the first start
	log  Tail
	cmd  *exec.Cmd // nil: not running
}

// Start starts the service and returns when it listens. If another program uses the address
// meanwhile, Start waits until it is free.
func (s *Service) Start(ctx context.Context) error {
	for end := time.Now().Add(Patience); ; {
		err := s.startOnce()
		switch {
		case err == nil, ctx.Err() != nil:
			return err
		case s.Addr == "", !strings.Contains(s.log.String(), "address already in use"), time.Now().After(end):
			return fmt.Errorf("%w: %s", err, &s.log)
		}
	}
}

func (s *Service) startOnce() error {
	listen := s.Addr
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	cmd := exec.Command(Codex, append([]string{"rendezvous", "--listen", listen}, s.Args...)...)
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
	s.cmd, s.Addr = cmd, addr
	return nil
}

// Kill ends the service like a crash.
func (s *Service) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// Tail retains the end of the data written to it.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

// tailBytes is the number of bytes that Tail retains: the end of a log contains the reason for a failure.
const tailBytes = 64 << 10

func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-tailBytes):]
	return len(b), nil
}

func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
