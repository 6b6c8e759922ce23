package process

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"
)

// Spec describes a program to start. Argv and Dir are required.
type Spec struct {
	// Argv is the program and its arguments. A program without a slash is
	// looked up in the PATH of Env.
	Argv []string
	// Arg0 is argv[0] of the program; nil: Argv[0].
	Arg0 *string
	// Dir is the absolute working directory.
	Dir string
	// Env is the whole environment, as NAME=VALUE.
	Env []string
	// TTY gives the program a terminal of Rows x Cols (0: 24 x 80) instead of pipes.
	TTY        bool
	Rows, Cols uint16
	// PipeStdin gives the program a pipe as stdin instead of /dev/null.
	PipeStdin bool
	// Window is the number of bytes of output that may be unacknowledged before
	// reading stops (see Process.Ack). Values outside of MinWindow and
	// MaxWindow are adjusted. 0: no limit.
	Window uint64
	// ExtraFiles become the program's descriptors 3 and up. The caller closes them.
	ExtraFiles []*os.File
	// DetectDenial, if set, is called once at exit with the exit code and the retained output; a
	// terminal's output is passed as stdout. The exit event reports its result. Nil: false.
	DetectDenial func(exitCode int, stdout, stderr []byte) bool
	// ExitGracePeriod means that the program, when it is killed, kills its own descendants and
	// cleans up, as the sandbox launcher does. Its cgroup is killed only after settleTime.
	ExitGracePeriod bool
	// Standby, if set, is a standby of the same program. It is used if it still works. Otherwise it
	// is closed, and the program is started. The caller must not use it again.
	Standby *Standby
	// Limits bound the resources of the program and its descendants.
	Limits Limits

	outlives bool // it does not end with this program: see Janitor
}

// ends are the descriptors of a new process: this program's ends, which are polled, and the
// process's ends, which block.
type ends struct {
	stdin   File // nil: the null device
	streams []stream
	child   []int    // to close after the fork
	files   [3]int   // descriptors 0, 1 and 2 of the child
	master  *os.File // the terminal, when there is one
	slave   *os.File
}

type stream struct {
	name Stream
	file File
}

// closeChild closes the descriptors that only the child needs.
func (e *ends) closeChild() {
	for _, fd := range e.child {
		_ = unix.Close(fd)
	}
	if e.slave != nil {
		_ = e.slave.Close()
	}
}

// closeOurs closes this program's ends after a failed start.
func (e *ends) closeOurs() {
	if e.stdin != nil {
		_ = e.stdin.Close()
	}
	for _, s := range e.streams {
		_ = s.file.Close()
	}
}

func openEnds(spec *Spec) (*ends, error) {
	e := &ends{}
	open := e.openPipes
	if spec.TTY {
		open = e.openTerminal
	}
	if err := open(spec); err != nil {
		e.closeChild()
		e.closeOurs()
		return nil, err
	}
	return e, nil
}

func (e *ends) openPipes(spec *Spec) error {
	var err error
	if spec.PipeStdin {
		var ours *os.File
		if e.files[0], ours, err = e.pipe("stdin", 0); err == nil {
			e.stdin = ours
		}
	} else {
		e.files[0], err = unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			e.child = append(e.child, e.files[0])
		}
	}
	if err != nil {
		return fmt.Errorf("open stdin: %w", err)
	}
	for i, name := range []Stream{Stdout, Stderr} {
		var ours *os.File
		if e.files[i+1], ours, err = e.pipe(string(name), 1); err != nil {
			return fmt.Errorf("open %s: %w", name, err)
		}
		e.streams = append(e.streams, stream{name, ours})
	}
	return nil
}

// pipe makes a pipe. The child gets the end with that index (0 reads, 1 writes), and this program
// gets the other.
func (e *ends) pipe(name string, index int) (child int, ours *os.File, err error) {
	var fds [2]int
	if err := pipeCloseOnExec(&fds); err != nil {
		return -1, nil, err
	}
	e.child = append(e.child, fds[index])
	if err := unix.SetNonblock(fds[1-index], true); err != nil {
		_ = unix.Close(fds[1-index])
		return -1, nil, err
	}
	return fds[index], os.NewFile(uintptr(fds[1-index]), name), nil
}

func (e *ends) openTerminal(spec *Spec) error {
	master, slave, err := pty.Open()
	if err != nil {
		return fmt.Errorf("open a terminal: %w", err)
	}
	e.slave = slave
	if master, err = polled(master); err != nil {
		return fmt.Errorf("prepare the terminal: %w", err)
	}
	e.stdin, e.master = master, master
	e.streams = []stream{{PTY, master}}
	fd := int(slave.Fd())
	e.files = [3]int{fd, fd, fd}
	if err := unix.SetNonblock(fd, false); err != nil {
		return fmt.Errorf("prepare the terminal: %w", err)
	}
	size := &pty.Winsize{Rows: spec.Rows, Cols: spec.Cols}
	if size.Rows == 0 {
		size.Rows = defaultRows
	}
	if size.Cols == 0 {
		size.Cols = defaultCols
	}
	if err := pty.Setsize(master, size); err != nil {
		return fmt.Errorf("set the terminal's size: %w", err)
	}
	return nil
}

// polled closes f and returns a duplicate that uses the runtime's poller, so that a read does not
// occupy a thread. The library that opened f may have made it blocking permanently.
func polled(f *os.File) (*os.File, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// check returns an error for a spec that exec cannot represent: no program, or
// a NUL byte in a string.
func (spec *Spec) check() error {
	if len(spec.Argv) == 0 || spec.Argv[0] == "" {
		return ErrNoProgram
	}
	for _, list := range [][]string{spec.Argv, spec.Env, {spec.Dir}} {
		for _, s := range list {
			if strings.IndexByte(s, 0) >= 0 {
				return ErrNUL
			}
		}
	}
	if spec.Arg0 != nil && strings.IndexByte(*spec.Arg0, 0) >= 0 {
		return ErrNUL
	}
	return nil
}

// lookups counts the starts that look up a program or a directory. It is global, because all
// supervisors share the threads of this program.
var lookups = semaphore.NewWeighted(maxLookups)

// lookUp calls f, whose system calls may hang, once fewer than maxLookups other calls run. It
// returns the error of f or of ctx.
func lookUp(ctx context.Context, f func() error) error {
	if err := lookups.Acquire(ctx, 1); err != nil {
		return err
	}
	defer lookups.Release(1)
	return f()
}

// find calls program by lookUp, because the directories of PATH may be on a file system that hangs.
func (spec *Spec) find(ctx context.Context) (path string, err error) {
	if strings.Contains(spec.Argv[0], "/") {
		return spec.program() // no search in PATH
	}
	err = lookUp(ctx, func() error {
		path, err = spec.program()
		return err
	})
	return path, err
}

// program returns the file to execute. It is the file that execvp would find with the child's
// environment in the child's directory.
func (spec *Spec) program() (string, error) {
	name := spec.Argv[0]
	if strings.Contains(name, "/") {
		return name, nil
	}
	search := defaultPath
	for _, kv := range spec.Env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			search = value
		}
	}
	err := syscall.ENOENT
	for dir := range strings.SplitSeq(search, ":") {
		if !path.IsAbs(dir) {
			dir = path.Join(spec.Dir, dir)
		}
		file := path.Join(dir, name)
		switch unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS) {
		case nil:
			var st unix.Stat_t
			if unix.Stat(file, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
				return file, nil
			}
		case unix.EACCES:
			err = syscall.EACCES
		}
	}
	return "", &SpawnError{What: "program", Path: name, Errno: err}
}

// fork starts the program with its descriptors. It returns the pid and a process descriptor, or -1
// if the kernel has none. cgroup is the directory of the cgroup to start in, or -1.
func (spec *Spec) fork(e *ends, program string, cgroup int) (pid, pidfd int, err error) {
	files := make([]uintptr, 0, 3+len(spec.ExtraFiles))
	for _, fd := range e.files {
		files = append(files, uintptr(fd))
	}
	for _, f := range spec.ExtraFiles {
		files = append(files, f.Fd())
	}
	argv := spec.Argv
	if spec.Arg0 != nil {
		argv = append([]string{*spec.Arg0}, argv[1:]...)
	}
	pidfd = -1
	pid, err = syscall.ForkExec(program, argv, &syscall.ProcAttr{
		Dir: spec.Dir, Env: spec.Env, Files: files, Sys: attributes(spec, cgroup, &pidfd),
	})
	if err == syscall.EBADF && aboveLimit(files) {
		err = syscall.EMFILE
	}
	if err != nil {
		return 0, -1, spec.explain(program, err)
	}
	return pid, pidfd, nil
}

// aboveLimit reports whether a start with these descriptors may need a descriptor above the limit
// of open files. To reorder the descriptors, syscall.ForkExec copies each of them, and a pipe of
// its own, to numbers above all of them. If such a number is above the limit, it fails with EBADF.
func aboveLimit(files []uintptr) bool {
	var limit syscall.Rlimit
	return syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil && uint64(slices.Max(files))+uint64(len(files))+1 >= uint64(limit.Cur)
}

// forkSpec calls fork for a process of the supervisor.
func (s *Supervisor) forkSpec(spec *Spec, e *ends, program string, cgroup int) (pid, pidfd int, err error) {
	if s.opts.KillFirst {
		s.oom.raise()
		defer s.oom.restore()
	}
	return spec.fork(e, program, cgroup)
}

// explain returns an error that names the program or the working directory, depending
// on which of them made the start fail. The system call returns the same errno for
// both, so the directory is checked here.
func (spec *Spec) explain(program string, err error) error {
	errno, ok := err.(syscall.Errno)
	if !ok {
		return fmt.Errorf("start %s: %w", program, err)
	}
	var st unix.Stat_t
	if e, bad := unix.Stat(spec.Dir, &st).(syscall.Errno); bad && e == errno {
		return &SpawnError{What: "working directory", Path: spec.Dir, Errno: errno}
	}
	if errno == syscall.ENOTDIR && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return &SpawnError{What: "working directory", Path: spec.Dir, Errno: errno}
	}
	if errno == syscall.EACCES && unix.Faccessat(unix.AT_FDCWD, spec.Dir, unix.X_OK, unix.AT_EACCESS) == unix.EACCES {
		return &SpawnError{What: "working directory", Path: spec.Dir, Errno: errno}
	}
	return &SpawnError{What: "program", Path: program, Errno: errno}
}
