package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/runner"
	"golang.org/x/sys/unix"
)

// These are the names of the doctor's child processes.
const (
	childWaits    = "wait"     // until its input ends
	childConfined = "confined" // prints what it can do in a sandbox
)

// Main runs a child of the doctor and returns its exit code. args are the arguments after Arg.
func Main(args []string) int {
	time.AfterFunc(childTime, func() { os.Exit(1) })
	switch {
	case slices.Equal(args, []string{childWaits}):
		_, _ = io.Copy(io.Discard, os.Stdin)
	case len(args) == 2 && args[0] == childConfined:
		if err := json.NewEncoder(os.Stdout).Encode(attempt(attemptsIn(args[1]))); err != nil {
			return 1
		}
	default:
		fmt.Fprintln(os.Stderr, "codex: "+Arg+" is for codex doctor, which starts it by itself")
		return 1
	}
	return 0
}

// The actions of a confined child.
const (
	didRead          = "read"
	didWrite         = "write in the workspace"
	didWriteOutside  = "write outside of the workspace"
	didWriteMetadata = "write in .git"
	didMakeMetadata  = "make .codex"
	didNetwork       = "use the network"
	didOwnSockets    = "connect to a Unix socket of its own"
	didPrivileges    = "gain privileges"
	didProc          = "find itself in /proc"
	didFreshProc     = "find its own number in /proc" // a /proc of another PID namespace has another number
	didLoopback      = "reach its own loopback interface"
)

// harmless lists actions that policies neither guarantee nor forbid.
var harmless = []string{didOwnSockets, didProc, didFreshProc, didLoopback}

// attempt tries every action, and returns the actions that succeeded.
func attempt(d attempts) (did []string) {
	try := func(what string, f func() error) {
		if f() == nil {
			did = append(did, what)
		}
	}
	file := func(dir string) func() error {
		return func() error { return os.WriteFile(filepath.Join(dir, "made"), []byte("x"), 0o600) }
	}
	try(didRead, func() error { _, err := os.ReadFile(d.readable); return err })
	try(didWrite, file(d.workspace))
	try(didWriteOutside, file(d.outside))
	try(didWriteMetadata, file(d.git))
	try(didMakeMetadata, func() error {
		if os.Mkdir(d.codex, 0o700) == nil {
			return nil
		}
		return file(d.codex)()
	})
	try(didNetwork, func() error {
		// Connecting a UDP socket sends nothing. The address is reserved for documentation.
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{192, 0, 2, 1}, Port: 53})
			_ = unix.Close(fd)
		}
		return err
	})
	try(didOwnSockets, func() error {
		address := &unix.SockaddrUnix{Name: "socket"} // in the workspace; its path could be too long
		server, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		client, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return errors.Join(unix.Bind(server, address), unix.Listen(server, 1), unix.Connect(client, address))
	})
	try(didPrivileges, func() error {
		if on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || on == 0 {
			return nil
		}
		return unix.EPERM
	})
	try(didProc, func() error { _, err := os.Readlink("/proc/self"); return err })
	try(didFreshProc, func() error {
		number, err := os.Readlink("/proc/self")
		if err == nil && number != strconv.Itoa(os.Getpid()) {
			err = unix.ESRCH
		}
		return err
	})
	try(didLoopback, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		// No service uses this port. If an interface is down, a connection attempt does not reach
		// it at all.
		const discard = 9
		err = unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: discard})
		if errors.Is(err, unix.ECONNREFUSED) {
			return nil
		}
		return err
	})
	return did
}

// attempts are the paths at which a confined child tries to write.
type attempts struct{ workspace, git, codex, outside, readable string }

func attemptsIn(dir string) attempts {
	w := filepath.Join(dir, "workspace")
	return attempts{
		workspace: w, git: filepath.Join(w, ".git"), codex: filepath.Join(w, ".codex"),
		outside: filepath.Join(dir, "outside"), readable: filepath.Join(dir, "outside", "readable"),
	}
}

// make creates the files for the attempts. It does not create the directory .codex.
func (a attempts) make() error {
	for _, dir := range []string{a.workspace, a.git, a.outside} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return os.WriteFile(a.readable, []byte("x"), 0o600)
}

// enforce makes a backend enforce both policies, and records what a confined child could do.
func (e *examination) enforce(b *Backend) {
	if _, err := e.confine(b.Name, "read-only", false); err != nil {
		b.Reason = err.Error()
		return
	}
	b.ReadOnly = true
	if b.Name == landlockName {
		b.Reason = "enforces read-only policies only: it cannot protect .git, .agents and .codex below what may be written"
		return
	}
	did, err := e.confine(b.Name, "workspace-write", true)
	if err != nil {
		b.Reason = err.Error()
		return
	}
	b.WorkspaceWrite, b.OwnSockets = true, slices.Contains(did, didOwnSockets)
	if e.did == nil && b.Name != brokerName { // it has no /proc and no network of its own
		e.did = did
	}
	if !b.OwnSockets {
		e.note("With %s, a command without a network cannot connect to Unix sockets by their paths, not even to its own. It needs Linux 5.19, "+
			"the kernel's module unix_diag and the call pidfd_getfd, and a system in which no other program supervises system calls of this one.", b.Name)
	}
}

// confine runs a child in a sandbox, and returns what the child could do. It returns an error if
// the child could do more or less than the policy permits.
func (e *examination) confine(backend, policy string, write bool) (did []string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("try a %s policy: %w", policy, err)
		}
	}()
	dir := filepath.Join(e.dir, backend+"-"+policy)
	at := attemptsIn(dir)
	if err := at.make(); err != nil {
		return nil, err
	}
	profile := permissions.Profile{Kind: permissions.Managed}
	profile.FileSystem.Entries = []permissions.Entry{{Path: permissions.Path{Kind: permissions.Root}, Access: permissions.Read}}
	want := []string{didRead}
	if write {
		profile.FileSystem.Entries = append(profile.FileSystem.Entries,
			permissions.Entry{Path: permissions.Path{Kind: permissions.Literal, Text: at.workspace}, Access: permissions.Write})
		want = append(want, didWrite)
	}
	sandboxes, err := runner.NewRuntime(runner.Options{Self: true, Backend: backend})
	if err != nil {
		return nil, err
	}
	defer sandboxes.Close()
	command, err := sandboxes.Process(runner.Confinement{Profile: profile, PolicyCwd: at.workspace, CommandCwd: at.workspace},
		[]string{e.facts.self, Arg, childConfined, dir}, nil, []string{"PATH=/usr/bin:/bin"})
	if err != nil {
		return nil, err
	}
	defer command.Close()
	defer command.Refusal.Close()
	ctx, cancel := context.WithTimeout(e.ctx, childTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, command.Argv[0])
	cmd.Args, cmd.Env, cmd.ExtraFiles = append([]string{command.Arg0}, command.Argv[1:]...), command.Env, command.Files
	if did, err = attempted(cmd); err != nil {
		return nil, err
	}
	for _, what := range did {
		if !slices.Contains(harmless, what) && !slices.Contains(want, what) {
			return nil, errors.New("the command could " + what)
		}
	}
	for _, what := range want {
		if !slices.Contains(did, what) {
			return nil, errors.New("the command could not " + what)
		}
	}
	return did, nil
}

// attempted runs a command that prints what it could do, and returns that list.
func attempted(cmd *exec.Cmd) (did []string, err error) {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, killDelay
	err = cmd.Run()
	switch {
	case err != nil && errs.Len() > 0:
		return nil, errors.New(clip(errs.String()))
	case err != nil:
		return nil, err
	}
	if err := json.Unmarshal(out.Bytes(), &did); err != nil {
		return nil, fmt.Errorf("the command printed no answer: %s", clip(out.String()))
	}
	return did, nil
}

// clip shortens the output of a program to one line.
func clip(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxSaid {
		s = strings.ToValidUTF8(s[:maxSaid], "") + "…"
	}
	return s
}
