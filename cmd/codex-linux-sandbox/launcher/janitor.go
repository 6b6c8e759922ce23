package launcher

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/pkg/sandbox"
	"codex.internal/pkg/sandbox/placeholders"
	"golang.org/x/sys/unix"
)

// janitor is the launcher's connection to the process that removes the launcher's leftovers if the
// launcher is killed (pkg/sandbox/placeholders, janitor.go). A server gives its launchers
// connections to one janitor. The first process of the sandbox keeps the connection open, too.
type janitor struct {
	placeholders.JanitorOf
	own  int  // the socket of a janitor that the launcher has started itself; -1: the janitor belongs to a server
	pid  int  // process id of that janitor
	told bool // the janitor accepts no more messages: the command was about to run
}

// takeJanitor takes the connection of the options, if one is given. The command must not inherit
// it.
func (l *launch) takeJanitor() {
	if l.janitorFD >= 0 {
		unix.CloseOnExec(l.janitorFD)
		l.janitor = &janitor{JanitorOf: placeholders.JanitorOf{FD: l.janitorFD}, own: -1}
	}
}

// startJanitor starts the launcher's own janitor. connect waits until it is ready.
func startJanitor() (*janitor, error) {
	ours, theirs, err := placeholders.JanitorPair()
	if err != nil {
		return nil, err
	}
	defer unix.Close(theirs)
	j := &janitor{JanitorOf: placeholders.JanitorOf{FD: -1}, own: ours}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(null)
		j.pid, err = syscall.ForkExec("/proc/self/exe", []string{sandbox.LauncherName, "--janitor-socket-fd", "3"}, &syscall.ProcAttr{
			Dir: "/", Env: []string{"GOMAXPROCS=1"}, Sys: &syscall.SysProcAttr{Setsid: true},
			Files: []uintptr{uintptr(null), uintptr(null), uintptr(null), uintptr(theirs)},
		})
	}
	if err != nil {
		_ = unix.Close(ours)
		return nil, fmt.Errorf("start the janitor: %w", err)
	}
	return j, nil
}

// connect makes the connection. It waits until the janitor has set its name, by which servers and
// watchdogs recognize a process that they must not kill.
func (j *janitor) connect() (err error) {
	if j.FD >= 0 {
		return nil
	}
	if err = placeholders.AwaitJanitor(j.own); err == nil {
		j.FD, err = placeholders.ConnectJanitor(j.own)
	}
	return err
}

// startAhead starts the janitor of a launcher that has none and probably needs one. It does so
// before the plan is made, because both take equally long. The broker puts nothing into the workspace.
func (l *launch) startAhead() (err error) {
	if l.janitor == nil && l.backend != "broker" && !l.explain && !l.filterOnly && !l.reading && l.prof.ConfinesFiles() && l.prof.FileSystem.Writes() {
		l.janitor, err = startJanitor()
	}
	return err
}

// forget tells the janitor that nothing is left to remove. If no command was about to run, another attempt to
// make the sandbox can use the connection.
func (j *janitor) forget() {
	j.Forget()
	if j.told || j.own >= 0 {
		j.told = true
		_ = unix.Close(j.FD)
	}
	if j.own >= 0 {
		_ = unix.Close(j.own)
		_, _ = initproc.Wait(j.pid)
	}
}

// runJanitor turns this process into a janitor. It ends when nothing is left to remove. Signals
// that are meant for other processes do not end it.
func runJanitor(socket int) error {
	signal.Ignore()
	// The janitor must hold no descriptor of its launcher: a reader of the command's output waits
	// until all copies are closed.
	fds, err := inheritedDescriptors()
	if err != nil {
		return err
	}
	for _, fd := range fds {
		if fd >= standardFiles && fd != socket {
			_ = unix.Close(fd)
		}
	}
	if err := os.WriteFile("/proc/self/comm", []byte(placeholders.JanitorName), 0); err != nil {
		return fmt.Errorf("name the janitor: %w", err)
	}
	return placeholders.RunJanitor(socket)
}
