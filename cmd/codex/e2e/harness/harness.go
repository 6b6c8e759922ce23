// Package harness contains the shared parts of the end-to-end tests: the program under test, its
// servers and services, users at terminals, and connections that are cut. The tests are in the
// packages beside it, by topic: cli, sandbox, recovery, rendezvous, interop and others. The campaigns
// that scripts run for hours are tests too: campaign, soak, shortage and simulation.
package harness

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	// The import makes the program's code an input of the test, so that go test does not reuse a
	// cached result for another binary.
	_ "codex.internal/cmd/codex/cli"
	"codex.internal/pkg/testutil"
)

// Patience is how long tests wait for an event that must come.
const Patience = testutil.Timeout

// testVariables are the environment variables that configure the tests.
var testVariables = []string{"CODEX_E2E_CONTAINER", "CODEX_UPSTREAM", "CODEX_REAL_CLIENT", "CODEX_TEST_CACHE", "CODEX_TEST_ALL"}

// Repository is the path of this repository from the directories of the tests.
const Repository = "../../../.."

// builtVariable names a directory with the three programs in the form in which they
// are released. scripts/test builds them once for all test packages; without it each
// package builds its own.
const builtVariable = "CODEX_TEST_PROGRAMS"

// built is the value of builtVariable.
var built string

// Codex is the binary under test.
var Codex string

// Main is the TestMain of each package of end-to-end tests: it installs the program, runs
// the tests with an empty home directory, and exits.
func Main(m *testing.M) {
	dir, err := os.MkdirTemp("", "e2e")
	if err != nil {
		panic(err)
	}
	// The configuration of this machine's user must be neither read nor written.
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		if name == builtVariable {
			built = value // not os.Getenv: go test would then not reuse results for another directory
		}
		if strings.HasPrefix(name, "CODEX_") && !slices.Contains(testVariables, name) {
			_ = os.Unsetenv(name) // the name is valid
		}
	}
	// A shell starts background jobs of a script with some signals ignored, and programs would
	// inherit this. They do not inherit a handler, so install one.
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	if err := os.Setenv("CODEX_HOME", dir); err != nil {
		panic(err)
	}
	Codex = filepath.Join(dir, "codex")
	code := 1
	if err := Install(dir, "codex"); err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// SlowMain is Main for a package whose tests together take minutes: with -short it runs none of
// them.
func SlowMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("left out with -short: the tests of this package take minutes")
		os.Exit(0)
	}
	Main(m)
}

// Install puts programs in their released form into a directory. It uses the programs that
// scripts/test has built. If there are none, it builds them, like scripts/install.
func Install(dir string, programs ...string) error {
	if built == "" {
		args := append([]string{"-euc", `. "$1/scripts/lib.sh"; shift; build "$@"`, "build", Repository, dir}, programs...)
		out, err := exec.Command("bash", args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("build %q: %w\n%s", programs, err, out)
		}
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range programs {
		if err := LinkOrCopy(filepath.Join(built, name), filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("install %s: %w", name, err)
		}
	}
	return nil
}

// LinkOrCopy gives a program another name. If that is on another file system, it copies the program.
func LinkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	program, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return testutil.WriteProgram(to, program)
}

// Server starts a server and returns it with its URL.
func Server(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	return ServerWith(t, nil, args...)
}

// ServerWith starts a server with additional variables in its environment, each as
// NAME=VALUE. Unlike t.Setenv this also works in parallel tests.
func ServerWith(t *testing.T, env []string, args ...string) (*exec.Cmd, string) {
	t.Helper()
	return startServer(t, Codex, env, ShownOnFailure(t), args)
}

// ServerLogging starts a server whose log is written to log.
func ServerLogging(t *testing.T, log io.Writer, args ...string) (*exec.Cmd, string) {
	t.Helper()
	return startServer(t, Codex, nil, log, args)
}

// ServerOf starts a server through a program that execs it.
func ServerOf(t *testing.T, program string, args ...string) (*exec.Cmd, string) {
	t.Helper()
	return startServer(t, program, nil, ShownOnFailure(t), args)
}

func startServer(t *testing.T, program string, env []string, log io.Writer, args []string) (*exec.Cmd, string) {
	t.Helper()
	if !slices.Contains(args, "--listen") {
		args = append([]string{"--listen", "ws://127.0.0.1:0"}, args...)
	}
	cmd := exec.Command(program, append([]string{"exec-server"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = log
	return cmd, StartServer(t, cmd, func() {})
}

// StartServer starts a server and returns its URL. It calls started when the process exists, and
// then waits until the server listens. The server is killed when the test ends.
func StartServer(t *testing.T, cmd *exec.Cmd, started func()) string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	Must(t, err)
	Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	started()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "ws://127.0.0.1:") && !strings.HasPrefix(line, "wss://127.0.0.1:") && !strings.HasPrefix(line, "unix:///") {
		t.Fatalf("the first line of the server is %q: %v", line, err)
	}
	return strings.TrimSpace(line)
}

// ShownOnFailure returns a writer for the log of a server. The end of the log is
// shown if the test fails.
func ShownOnFailure(t *testing.T) *Tail {
	t.Helper()
	log := &Tail{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the server's log:\n%s", log)
		}
	})
	return log
}

// Run runs codex to its end.
func Run(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(Codex, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	timer := time.AfterFunc(Patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func AwaitGone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		testutil.Eventually(t.Context(), t, fmt.Sprintf("the end of process %d", pid), func() (string, bool) { return testutil.Gone(pid) })
	}
}

// Eventually polls until look reports no differences.
func Eventually(t *testing.T, what string, look func() []string) {
	t.Helper()
	testutil.Eventually(t.Context(), t, "no "+what, func() (string, bool) {
		left := look()
		return fmt.Sprintf("%d:\n%s", len(left), strings.Join(left[:min(len(left), 20)], "\n")), len(left) == 0
	})
}
