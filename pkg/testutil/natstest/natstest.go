// Package natstest runs real NATS servers with JetStream for tests, which may
// kill and restart them. Servers keep their ports and stored data until the
// test ends.
//
//	s := natstest.Start(t)
//	... s.URL() ...
//	s.Kill()
//	s.Restart()
//
// The server is a tool of scripts/tools, so that only tests link it. If a method fails, it ends the
// test.
package natstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// startTime bounds how long a server may take until it serves. Three servers need some seconds
	// to elect a leader.
	startTime = 60 * time.Second
	// pollInterval is the pause between polls of state that no event reports.
	pollInterval = 20 * time.Millisecond
	// startAttempts bounds how often a cluster is started because another
	// process has taken one of its ports meanwhile.
	startAttempts = 5
)

// program returns the path of the server's binary, which go keeps in its cache.
var program = sync.OnceValues(func() (string, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "codex.internal/pkg").Output()
	if err != nil {
		return "", fmt.Errorf("natstest: find the repository: %w", describe(err))
	}
	// With -trimpath the build shares the compiled standard library with the other builds of
	// scripts/test; go tool has no such option. Without optimization the server compiles in half
	// the time, and is fast enough. The first path that go prints is one that go removes
	// afterwards.
	for range 2 {
		cmd := exec.Command("go", "run", "-trimpath", "-gcflags", "github.com/nats-io/nats-server/v2/server=-N -l", "-exec", "echo", "github.com/nats-io/nats-server/v2")
		cmd.Dir = filepath.Join(strings.TrimSpace(string(root)), "..", "scripts", "tools")
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false", "CGO_ENABLED=0", "GOOS=", "GOARCH=")
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("natstest: build nats-server: %w", describe(err))
		}
		path := strings.TrimSpace(string(out))
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("natstest: go does not keep the nats-server that it has built")
})

// describe adds the program's output to an error.
func describe(err error) error {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return err
}

// Server is one NATS server. Only the goroutine of the test may call its methods.
type Server struct {
	t       testing.TB
	dir     string
	cluster *clusterConfig // nil: it is alone
	client  int            // its ports; -1 until the first start
	monitor int
	user    *url.Userinfo // the users that are admitted; nil: everybody

	cmd    *exec.Cmd     // nil: it does not run
	exited chan struct{} // closed when cmd has ended
}

// clusterConfig is a server's configuration of its cluster.
type clusterConfig struct {
	name   string // of the server
	ports  []int  // of all
	number int    // its own
}

// Start runs a server that ends with the test, and waits until it is ready.
func Start(t testing.TB) *Server {
	t.Helper()
	s := newServer(t, nil)
	s.Restart()
	return s
}

func newServer(t testing.TB, cluster *clusterConfig) *Server {
	if testing.Short() {
		t.Skip("it starts servers of NATS")
	}
	s := &Server{t: t, dir: t.TempDir(), cluster: cluster, client: -1, monitor: -1}
	t.Cleanup(s.Kill)
	return s
}

// URL returns the URL for clients: nats://127.0.0.1:PORT, with the user and the password of
// Authorize.
func (s *Server) URL() string {
	u := url.URL{Scheme: "nats", User: s.user, Host: fmt.Sprintf("127.0.0.1:%d", s.client)}
	return u.String()
}

// Authorize makes the server accept only one user, beginning with the next Restart.
func (s *Server) Authorize(user, password string) { s.user = url.UserPassword(user, password) }

// Kill ends the server at once, like a crash. If the server does not run, Kill
// does nothing.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended by itself
	<-s.exited
	s.cmd = nil
}

// Restart starts a server that does not run, and waits until it serves.
func (s *Server) Restart() {
	s.t.Helper()
	if err := s.launch(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.awaitReady(); err != nil {
		s.t.Fatal(err)
	}
}

// launch starts the server without waiting for it.
func (s *Server) launch() error {
	path, err := program()
	if err != nil {
		return err
	}
	config := filepath.Join(s.dir, "config")
	if err := os.WriteFile(config, []byte(s.config()), 0o600); err != nil {
		return fmt.Errorf("natstest: %w", err)
	}
	if err := os.RemoveAll(filepath.Join(s.dir, "ports")); err != nil {
		return fmt.Errorf("natstest: %w", err)
	}
	if err := os.Mkdir(filepath.Join(s.dir, "ports"), 0o700); err != nil {
		return fmt.Errorf("natstest: %w", err)
	}
	log, err := os.OpenFile(s.log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("natstest: %w", err)
	}
	defer log.Close() // the server has it open
	cmd := exec.Command(path, "--config", config)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("natstest: start %s: %w", path, err)
	}
	exited := make(chan struct{})
	s.cmd, s.exited = cmd, exited
	go func() { // Kill waits for it
		defer close(exited)
		_ = cmd.Wait() // the log contains the reason
	}()
	return nil
}

// config returns the server's configuration.
func (s *Server) config() string {
	var c strings.Builder
	fmt.Fprintf(&c, "listen: \"127.0.0.1:%d\"\nhttp: \"127.0.0.1:%d\"\n", s.client, s.monitor)
	fmt.Fprintf(&c, "ports_file_dir: %q\n", filepath.Join(s.dir, "ports"))
	fmt.Fprintf(&c, "jetstream { store_dir: %q, max_mem: 64MB, max_file: 256MB }\n", s.dir)
	if s.user != nil {
		password, _ := s.user.Password()
		fmt.Fprintf(&c, "authorization { user: %q, password: %q }\n", s.user.Username(), password)
	}
	if s.cluster == nil {
		return c.String()
	}
	fmt.Fprintf(&c, "server_name: %q\ncluster { name: test, listen: \"127.0.0.1:%d\", routes: [", s.cluster.name, s.cluster.ports[s.cluster.number])
	for i, port := range s.cluster.ports {
		if i != s.cluster.number {
			fmt.Fprintf(&c, " \"nats://127.0.0.1:%d\",", port)
		}
	}
	c.WriteString(" ] }\n")
	return c.String()
}

func (s *Server) log() string { return filepath.Join(s.dir, "log") }

// awaitReady waits until the server and its JetStream serve.
func (s *Server) awaitReady() error {
	deadline := time.Now().Add(startTime)
	for {
		ready, err := s.ready()
		if ready {
			return nil
		}
		select {
		case <-s.exited:
			err = errors.New("it has ended")
		default:
			if time.Now().Before(deadline) {
				time.Sleep(pollInterval)
				continue
			}
		}
		log, _ := os.ReadFile(s.log())
		return fmt.Errorf("natstest: nats-server does not serve: %w\n%s", err, log)
	}
}

// ready reports whether the server is ready, or why it is not.
func (s *Server) ready() (bool, error) {
	if err := s.readPorts(); err != nil {
		return false, err
	}
	res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", s.monitor))
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	return res.StatusCode == http.StatusOK, fmt.Errorf("its health is %s", res.Status)
}

// readPorts reads the ports from the file that the server writes.
func (s *Server) readPorts() error {
	name := filepath.Join(s.dir, "ports", fmt.Sprintf("%s_%d.ports", filepath.Base(s.cmd.Path), s.cmd.Process.Pid))
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var ports struct {
		Nats       []string `json:"nats"`
		Monitoring []string `json:"monitoring"`
	}
	if err := json.Unmarshal(data, &ports); err != nil {
		return fmt.Errorf("%s: %w", name, err) // it is still being written
	}
	if len(ports.Nats) != 1 || len(ports.Monitoring) != 1 {
		return fmt.Errorf("%s: %s", name, data)
	}
	if s.client, err = portOf(ports.Nats[0]); err != nil {
		return err
	}
	s.monitor, err = portOf(ports.Monitoring[0])
	return err
}
