package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// server is one exec-server under measurement.
type server struct {
	name, path string
	args       []string // in addition to those with its address
	home       string   // empty: a login profile would be read with every start
	dir        string   // for files
	bin        string   // first on its PATH; "": nothing
	cmd        *exec.Cmd
	url        string
	listening  time.Duration
	guarded    *server // a second server like it that requires a token; nil: not running
}

// running are the processes that have been started and not stopped.
var running struct {
	sync.Mutex
	commands map[*exec.Cmd]bool
	closed   bool // no more may start
}

// abandon kills every process, and prevents new ones from being started.
func abandon() {
	running.Lock()
	defer running.Unlock()
	running.closed = true
	for cmd := range running.commands {
		_ = cmd.Process.Kill()
	}
}

// launch starts a process that ends with this one.
func launch(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	running.Lock()
	defer running.Unlock()
	if running.closed {
		return errors.New("interrupted")
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	if running.commands == nil {
		running.commands = map[*exec.Cmd]bool{}
	}
	running.commands[cmd] = true
	return nil
}

// finish ends a process that launch has started.
func finish(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	timer.Stop()
	running.Lock()
	delete(running.commands, cmd)
	running.Unlock()
}

// start starts the server on a free port and records how long it took to report
// that it listens.
func (s *server) start() error {
	cmd := exec.Command(s.path, append([]string{"exec-server", "--listen", "ws://127.0.0.1:0"}, s.args...)...)
	cmd.Env = append(os.Environ(), "HOME="+s.home, "CODEX_HOME="+s.home)
	if s.bin != "" {
		cmd.Env = append(cmd.Env, "PATH="+s.bin+":"+os.Getenv("PATH"))
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := launch(cmd); err != nil {
		return err
	}
	s.cmd = cmd
	if s.url, err = lineOf(cmd, bufio.NewReader(out), ""); err != nil {
		s.stop()
		return fmt.Errorf("%s does not say where it listens: %w", s.name, err)
	}
	s.listening = time.Since(began)
	return nil
}

// lineOf returns the first line of a process's output that contains a text. If there is none within
// patience, it kills the process and returns an error with the output.
func lineOf(cmd *exec.Cmd, out *bufio.Reader, text string) (string, error) {
	defer time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }).Stop()
	var said strings.Builder
	for {
		line, err := out.ReadString('\n')
		said.WriteString(line)
		switch {
		case err != nil:
			return "", fmt.Errorf("%w\n%s", err, said.String())
		case strings.Contains(line, text):
			return strings.TrimSpace(line), nil
		}
	}
}

// startGuarded starts another server like s that requires a token.
func (s *server) startGuarded(token string) error {
	file := filepath.Join(s.home, "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		return err
	}
	guarded := &server{name: s.name, path: s.path, home: s.home, bin: s.bin, args: []string{"--ws-auth", "capability-token", "--ws-token-file", file}}
	if err := guarded.start(); err != nil {
		return err
	}
	s.guarded = guarded
	return nil
}

// stop ends the server if it is running. For a nil server it does nothing.
func (s *server) stop() {
	if s == nil || s.cmd == nil {
		return
	}
	s.guarded.stop()
	finish(s.cmd)
	s.cmd = nil
}

// rss returns the resident memory of the server and of the helpers that it keeps, in KiB. It is the
// proportional set size, so shared pages count once.
func (s *server) rss() float64 { return resident(s.cmd) }

func resident(cmd *exec.Cmd) float64 {
	total := 0.0
	for _, pid := range family(cmd.Process.Pid) {
		total += field(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss:")
	}
	return total
}

// family lists a process and its descendants.
func family(pid int) []int {
	pids := []int{pid}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		for _, child := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(child); err == nil {
				pids = append(pids, family(n)...)
			}
		}
	}
	return pids
}

// field reads a number of KiB from a file of /proc.
func field(file, name string) float64 {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return n
		}
	}
	return 0
}
