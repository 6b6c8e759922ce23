package process

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A limiter is a program that lowers its resource limits and then executes another one:
// after a fork, Go cannot do that between fork and exec. Its arguments are the limits
// (NUMBER=VALUE, separated by commas), the number of a descriptor, the program, and the
// program's arguments including its name. It writes the errno to the descriptor if the
// program cannot be executed; otherwise the descriptor closes.
//
// Setting the limits of a running process was rejected: children that it had already
// started would have no limits.

// rlimit is one resource limit.
type rlimit struct {
	resource int
	value    uint64
}

// rlimits returns the limits that the kernel enforces for each process separately.
func (l *Limits) rlimits() []rlimit {
	var list []rlimit
	if l.CPUTime > 0 {
		list = append(list, rlimit{unix.RLIMIT_CPU, uint64(l.CPUTime / time.Second)})
	}
	if l.FileSize > 0 {
		list = append(list, rlimit{unix.RLIMIT_FSIZE, l.FileSize})
	}
	if l.OpenFiles > 0 {
		list = append(list, rlimit{unix.RLIMIT_NOFILE, l.OpenFiles})
	}
	return list
}

// limiter is the start of a program by a limiter.
type limiter struct {
	program string   // to execute
	report  *os.File // this program's end of the limiter's pipe
	theirs  *os.File
}

// limiter changes a spec so that it starts the limiter, which executes program. It returns nil, and
// does not change the spec, if no limit needs it. The caller calls await or close.
func (s *Supervisor) limiter(spec *Spec, program string) (*limiter, error) {
	limits := spec.Limits.rlimits()
	if !spec.ExitGracePeriod { // the launcher of a sandbox does so for its command: it needs threads itself
		if most := s.CommandTasks(); most > 0 {
			limits = append(limits, rlimit{unix.RLIMIT_NPROC, most})
		}
	}
	if len(limits) == 0 || len(s.opts.Limiter) == 0 {
		return nil, nil
	}
	report, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	words := make([]string, len(limits))
	for i, l := range limits {
		words[i] = strconv.Itoa(l.resource) + "=" + strconv.FormatUint(l.value, 10)
	}
	name := spec.Argv[0]
	if spec.Arg0 != nil {
		name = *spec.Arg0
	}
	own := []string{strings.Join(words, ","), strconv.Itoa(firstExtra + len(spec.ExtraFiles)), program, name}
	spec.Argv, spec.Arg0 = slices.Concat(s.opts.Limiter, own, spec.Argv[1:]), nil
	spec.ExtraFiles = append(spec.ExtraFiles[:len(spec.ExtraFiles):len(spec.ExtraFiles)], theirs)
	// It was started without these limits.
	spec.Standby.Close()
	spec.Standby = nil
	return &limiter{program, report, theirs}, nil
}

// firstExtra is the descriptor that the first of Spec.ExtraFiles becomes.
const firstExtra = 3

// close closes the pipe. It does nothing for nil.
func (l *limiter) close() {
	if l != nil {
		_, _ = l.report.Close(), l.theirs.Close()
	}
}

// await waits until the limiter has executed its program, and returns the
// error of that. For nil it returns nil.
func (l *limiter) await(spec *Spec) error {
	if l == nil {
		return nil
	}
	defer l.report.Close()
	_ = l.theirs.Close()
	var b [4]byte
	if _, err := io.ReadFull(l.report, b[:]); err != nil {
		return nil // executed, or killed: the exit status distinguishes them
	}
	return spec.explain(l.program, syscall.Errno(binary.LittleEndian.Uint32(b[:])))
}

// errLimiter is the error for arguments that this package has not made.
var errLimiter = errors.New("the arguments are not those of a limiter")

// RunLimiter is the main function of the command in Options.Limiter: args are the
// arguments that follow it. It returns only with an error.
func RunLimiter(args []string) error {
	const words = 4
	if len(args) < words {
		return errLimiter
	}
	fd, err := strconv.Atoi(args[1])
	if err != nil || fd < firstExtra {
		return errLimiter
	}
	unix.CloseOnExec(fd)
	// The parent-death signal refers to the thread that executes the program.
	runtime.LockOSThread()
	if err = lower(args[0]); err == nil {
		dieWithParent()
		err = syscall.Exec(args[2], args[3:], os.Environ())
	}
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		errno = syscall.EINVAL
	}
	_, _ = unix.Write(fd, binary.LittleEndian.AppendUint32(nil, uint32(errno)))
	return &exec.Error{Name: args[2], Err: err}
}

// lower sets the limits of a limiter's argument, as far as this process may: no limit
// is raised.
func lower(words string) error {
	for word := range strings.SplitSeq(words, ",") {
		number, value, _ := strings.Cut(word, "=")
		resource, err := strconv.Atoi(number)
		if err != nil {
			return errLimiter
		}
		limit, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return errLimiter
		}
		var r syscall.Rlimit
		if err := syscall.Getrlimit(resource, &r); err != nil {
			return err
		}
		r.Cur = min(limit, uint64(r.Max))
		// A process gets SIGXCPU first, and is killed a second later.
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
