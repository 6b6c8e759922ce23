package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/sandbox/egress"
	"golang.org/x/sys/unix"
)

// portAnswerTime bounds the answer to a question of the proxy about a port. The program answers at once.
const portAnswerTime = time.Second

// maxSignals bounds the signals that wait to be passed to the child.
const maxSignals = 8

// refusals collects the hosts that the proxy has refused. Its methods may be called from any goroutine.
type refusals struct {
	mu   sync.Mutex
	list []Refusal // at most MaxShownDenials
}

func (r *refusals) add(report egress.Report) {
	e := Refusal{Endpoint: Endpoint{report.Host, report.Port}, Rule: report.Rule, Reason: report.Reason, Detail: report.Detail}
	r.mu.Lock()
	defer r.mu.Unlock()
	if report.Verdict != egress.Pass && len(r.list) < MaxShownDenials && !slices.Contains(r.list, e) {
		r.list = append(r.list, e)
	}
}

// proxy starts the network proxy of the command in this process.
func (l *localLaunch) proxy(refused *refusals) (*egress.Proxy, error) {
	config := egress.Config{SOCKS5: true, Upstream: true, LocalBinding: l.private, Domains: l.endpoints.Domains(), Review: l.endpoints.Review()}
	if len(config.Review) > 0 {
		// The program asks no user, so a DNS query for a name that no pattern matches fails.
		config.AskTime = portAnswerTime
	}
	policy, err := egress.NewPolicy(config)
	if err != nil {
		return nil, err
	}
	host := egress.NewHost(egress.Options{})
	if err := host.Works(); err != nil {
		return nil, err
	}
	return host.Start(policy, egress.Hooks{Report: refused.add, Ask: func(_ context.Context, q egress.Question) egress.Answer {
		if l.endpoints.Match(q.Host, q.Port) != "" {
			return egress.Answer{Verdict: egress.Pass}
		}
		return egress.Answer{Verdict: egress.Block, Reason: egress.ReasonNotAllowed}
	}})
}

// runProxied runs the launcher as a child, with the command's network proxy in this process. It
// returns when the child has ended. The child uses this program's terminal, input and output.
func (l *localLaunch) runProxied() error {
	var refused refusals
	proxy, err := l.proxy(&refused)
	if err != nil {
		return &cmdutil.ExitError{Code: notStarted, Err: fmt.Errorf("start the network proxy of --allow-domain: %w", err)}
	}
	defer proxy.Close()
	ports := make([]string, 0, 2)
	for _, port := range proxy.Ports() {
		ports = append(ports, strconv.Itoa(int(port)))
	}
	l.args = append(l.args, "--allow-network-for-proxy", "--proxy-ports="+strings.Join(ports, ","))
	cmd, err := l.child(proxy)
	if err != nil {
		return &cmdutil.ExitError{Code: notStarted, Err: err}
	}
	code, err := supervise(cmd)
	if err != nil {
		return &cmdutil.ExitError{Code: notStarted, Err: fmt.Errorf("start the launcher %s: %w; install codex again", cmd.Path, err)}
	}
	if code == 0 {
		return nil
	}
	refused.mu.Lock()
	defer refused.mu.Unlock()
	if len(refused.list) > 0 {
		return &cmdutil.ExitError{Code: code, Err: errors.New(RefusedHosts(refused.list, l.endpoints, l.private))}
	}
	return &cmdutil.ExitError{Code: code}
}

// child returns the launcher as a child process. The kernel kills it if this process ends.
func (l *localLaunch) child(proxy *egress.Proxy) (*exec.Cmd, error) {
	launcher, err := findLauncher()
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: launcher, Env: proxy.Environ(os.Environ()), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	}
	theirs, err := redirect(proxy)
	if err != nil {
		return nil, err
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, theirs)
	l.args = append(l.args, "--egress-fd", strconv.Itoa(2+len(cmd.ExtraFiles)))
	cmd.Args, err = l.launcherArgs(func(profile []byte) (int, error) {
		fd, err := inMemory(profile)
		if err != nil {
			return 0, err
		}
		cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(fd), "profile"))
		return 2 + len(cmd.ExtraFiles), nil
	})
	return cmd, err
}

// redirect returns one end of a socket for the launcher. Over it, the launcher passes connections and DNS
// queries of programs that do not use a proxy themselves. The proxy serves them.
func redirect(proxy *egress.Proxy) (theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket for connections: %w", err)
	}
	theirs = os.NewFile(uintptr(pair[1]), "connections")
	if err := proxy.Redirect(os.NewFile(uintptr(pair[0]), "connections")); err != nil {
		_ = theirs.Close()
		return nil, err
	}
	return theirs, nil
}

// supervise runs a child to its end, forwards signals, and returns the exit code. If a
// signal ended the child, the exit code is 128 plus its number.
func supervise(cmd *exec.Cmd) (code int, err error) {
	// The kernel kills the child when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	signals := make(chan os.Signal, maxSignals)
	// A signal that is ignored stays ignored, in this process and in the child.
	cmdutil.Catch(signals, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	for _, f := range cmd.ExtraFiles {
		_ = f.Close() // the child has copies
	}
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { routineSignals(cmd.Process, signals, ended) })
	err = cmd.Wait()
	close(ended)
	wg.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

// routineSignals forwards signals until the child has ended. Ctrl-C sends SIGINT to all processes in the
// foreground of the terminal, including the child. In that case SIGINT is not forwarded, because the child
// would receive it twice.
func routineSignals(child *os.Process, signals <-chan os.Signal, ended <-chan struct{}) {
	for {
		select {
		case sig := <-signals:
			key := sig == syscall.SIGINT || sig == syscall.SIGQUIT
			if !key || !inForeground() {
				_ = child.Signal(sig)
			}
		case <-ended:
			return
		}
	}
}

// inForeground reports whether this process is in the foreground of its terminal.
func inForeground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
