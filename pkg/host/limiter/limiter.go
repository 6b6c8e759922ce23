// Package limiter starts a program with lower resource limits. Go cannot set limits between fork
// and exec, so another program does it: the limiter. It is started in place of the program, lowers
// its own limits, and executes the program. codex-linux-sandbox acts as the limiter, because it
// starts faster than codex. If codex is the only installed file, codex acts as the limiter.
//
// Setting the limits of a running process was rejected: children that it had already started would have no
// limits.
package limiter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Arg is the first argument of a limiter. The other arguments are those that Command returns.
const Arg = "--codex-run-as-limiter"

// Limit is a resource limit: a number such as unix.RLIMIT_NPROC, and the soft limit.
type Limit struct {
	Resource int
	Value    uint64
}

// processors is the variable that sets how many processors Go's runtime uses. With one processor, a
// limiter does not start threads that it does not need, and takes 1.0 ms instead of 1.4.
const processors = "GOMAXPROCS="

// Command returns the arguments after Arg, and the environment, of a limiter. The limiter executes
// program with name as its argv[0], args and env. If that fails, the limiter writes an errno to the
// descriptor fd; otherwise it closes fd. See ReadErrno.
//
// The arguments are, in order: the limits as RESOURCE=VALUE, separated by commas; the descriptor;
// the program's own GOMAXPROCS=N if it has one; the program; its name; its arguments.
func Command(limits []Limit, fd int, program, name string, args, env []string) (words, environ []string) {
	texts := make([]string, len(limits))
	for i, l := range limits {
		texts[i] = strconv.Itoa(l.Resource) + "=" + strconv.FormatUint(l.Value, 10)
	}
	own := ""
	environ = []string{processors + "1"}
	for _, kv := range env {
		if strings.HasPrefix(kv, processors) {
			own = kv
		} else {
			environ = append(environ, kv)
		}
	}
	return append([]string{strings.Join(texts, ","), strconv.Itoa(fd), own, program, name}, args...), environ
}

// errArgs is the error for arguments that do not come from Command.
var errArgs = errors.New("the arguments are not valid for a limiter")

// Run is the main function of a limiter. args are the arguments after Arg. It returns only if it
// cannot execute the program. It has then written the errno to the descriptor in args.
func Run(args []string) error {
	const words, firstExtra = 5, 3
	if len(args) < words {
		return errArgs
	}
	fd, err := strconv.Atoi(args[1])
	if err != nil || fd < firstExtra {
		return errArgs
	}
	unix.CloseOnExec(fd)
	// The kernel sends the parent-death signal if the thread that executes the program ends.
	runtime.LockOSThread()
	if err = lower(args[0]); err == nil {
		_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
		err = syscall.Exec(args[3], args[4:], environment(args[2]))
	}
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		errno = syscall.EINVAL
	}
	_, _ = unix.Write(fd, binary.LittleEndian.AppendUint32(nil, uint32(errno)))
	return fmt.Errorf("execute %s: %w", args[3], err)
}

// environment returns the environment of the program, with its own GOMAXPROCS=N, or without
// GOMAXPROCS if own is empty.
func environment(own string) []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, processors) })
	if own != "" {
		env = append(env, own)
	}
	return env
}

// ReadErrno waits for the limiter at the other end of a pipe. It returns 0 if the limiter has
// executed its program or has ended, and the errno if the limiter has failed.
func ReadErrno(pipe io.Reader) syscall.Errno {
	var b [4]byte
	if _, err := io.ReadFull(pipe, b[:]); err != nil {
		return 0
	}
	return syscall.Errno(binary.LittleEndian.Uint32(b[:]))
}

// lower sets the limits that an argument lists. It lowers limits only, because this process has no
// right to raise them.
func lower(words string) error {
	for word := range strings.SplitSeq(words, ",") {
		number, value, _ := strings.Cut(word, "=")
		resource, err := strconv.Atoi(number)
		if err != nil {
			return errArgs
		}
		limit, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return errArgs
		}
		var r syscall.Rlimit
		if err := syscall.Getrlimit(resource, &r); err != nil {
			return err
		}
		r.Cur = min(limit, uint64(r.Max))
		// At the soft limit a process gets SIGXCPU. It is killed a second later.
		if grace := cpuGrace(resource); r.Max-r.Cur > grace {
			r.Max = r.Cur + grace
		}
		if err := syscall.Setrlimit(resource, &r); err != nil {
			return err
		}
	}
	return nil
}

// cpuGrace is how far the hard limit of a resource is above the soft one.
func cpuGrace(resource int) uint64 {
	if resource == unix.RLIMIT_CPU {
		return 1
	}
	return 0
}
