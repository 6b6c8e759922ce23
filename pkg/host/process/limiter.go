package process

import (
	"os"
	"slices"
	"time"

	"codex.internal/pkg/host/limiter"
	"golang.org/x/sys/unix"
)

// rlimits returns the limits that the kernel enforces for each process separately.
func (l *Limits) rlimits() []limiter.Limit {
	var list []limiter.Limit
	if l.CPUTime > 0 {
		list = append(list, limiter.Limit{Resource: unix.RLIMIT_CPU, Value: uint64(l.CPUTime / time.Second)})
	}
	if l.FileSize > 0 {
		list = append(list, limiter.Limit{Resource: unix.RLIMIT_FSIZE, Value: l.FileSize})
	}
	if l.OpenFiles > 0 {
		list = append(list, limiter.Limit{Resource: unix.RLIMIT_NOFILE, Value: l.OpenFiles})
	}
	return list
}

// limitedStart is the state of a start by a limiter.
type limitedStart struct {
	program string   // to execute
	report  *os.File // this program's end of the limiter's pipe
	theirs  *os.File
}

// limitedStart changes a spec so that it starts the limiter, which then executes program. If no
// limit needs the limiter, it returns nil and does not change the spec. The caller calls await or
// close.
func (s *Supervisor) limitedStart(spec *Spec, program string) (*limitedStart, error) {
	limits := spec.Limits.rlimits()
	if !spec.ExitGracePeriod { // The launcher of a sandbox lowers this limit for its command, because the launcher itself needs threads.
		if most := s.CommandTasks(); most > 0 {
			limits = append(limits, limiter.Limit{Resource: unix.RLIMIT_NPROC, Value: most})
		}
	}
	if len(limits) == 0 || len(s.opts.Limiter) == 0 {
		return nil, nil
	}
	report, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	name := spec.Argv[0]
	if spec.Arg0 != nil {
		name = *spec.Arg0
	}
	words, env := limiter.Command(limits, firstExtra+len(spec.ExtraFiles), program, name, spec.Argv[1:], spec.Env)
	spec.Argv, spec.Arg0, spec.Env = slices.Concat(s.opts.Limiter, words), nil, env
	spec.ExtraFiles = append(spec.ExtraFiles[:len(spec.ExtraFiles):len(spec.ExtraFiles)], theirs)
	// The standby was started without these limits.
	spec.Standby.Close()
	spec.Standby = nil
	return &limitedStart{program, report, theirs}, nil
}

// firstExtra is the number that the first of Spec.ExtraFiles gets in the child.
const firstExtra = 3

// close closes the pipe. It does nothing for nil.
func (l *limitedStart) close() {
	if l != nil {
		_, _ = l.report.Close(), l.theirs.Close()
	}
}

// await waits until the limiter has executed its program, and returns the error of the execution.
// For nil it returns nil.
func (l *limitedStart) await(spec *Spec) error {
	if l == nil {
		return nil
	}
	defer l.report.Close()
	_ = l.theirs.Close()
	if errno := limiter.ReadErrno(l.report); errno != 0 {
		return spec.explain(l.program, errno)
	}
	return nil // executed, or killed: the exit status distinguishes them
}
