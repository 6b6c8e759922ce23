package initproc

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Program is a list of system calls that is prepared before a fork. The child makes the calls. A
// call may use the results of earlier calls, which are in registers.
//
// Only one goroutine may use a Program. It must not be changed after the fork.
type Program struct {
	Steps  []Step
	regs   []uintptr
	memory []any // memory to which the arguments point
}

// New returns a program without steps.
func New() *Program { return &Program{Steps: make([]Step, 0, usualSteps)} }

// usualSteps is the usual maximum of the number of steps in a program.
const usualSteps = 512

// Step is one system call.
type Step struct {
	Number uintptr // of the system call
	Args   [6]Arg
	What   string // the purpose, for error messages
	Path   string // the path concerned, for error messages
	// Full means that a short read or write is a failure: any result other than the third argument.
	// Zero means that any result other than 0 is a failure.
	Full, Zero bool
	// If Same is not nil, the call, an fstat, fills it in. The step fails if the call finds another file. If another is
	// set in Same, the step fails if the call finds this file.
	Same *Identity

	save Register // the register for the result
	alt  int      // the step to continue with if this one fails; 0: the program fails
	on   failures // to which failures alt applies
}

// failures is a set of errors.
type failures uint8

const (
	anyFailure failures = iota
	missing             // a path leads to no file
	forbidden           // EPERM
)

// Failure returns the error for a failed step.
func (s *Step) Failure(errno syscall.Errno) *Failure {
	return &Failure{What: s.What, Path: s.Path, Number: s.Number, Errno: errno}
}

// Register names the result of a call; the zero value names no result.
type Register int

// Arg is an argument of a call: a value or, if From is not 0, the result of an earlier call.
type Arg struct {
	Value uintptr
	From  Register
}

// Arg returns the result of a call as an argument.
func (r Register) Arg() Arg { return Arg{From: r} }

// Val returns a number as an argument.
func Val[T ~int | ~int64 | ~uint | ~uint32 | ~uint64 | ~uintptr](v T) Arg {
	return Arg{Value: uintptr(v)}
}

// CwdFD is AT_FDCWD (-100) as an argument: a path is relative to the working directory.
var CwdFD = Arg{Value: ^uintptr(99)}

// Text returns a path or another string as an argument.
func (p *Program) Text(s string) Arg { return Slice(p, append([]byte(s), 0)) }

// Pointer returns the address of a value that the child reads or writes.
func Pointer[T any](p *Program, to *T) Arg {
	p.memory = append(p.memory, to)
	return Arg{Value: uintptr(unsafe.Pointer(to))}
}

// Slice returns the address of the elements of a slice.
func Slice[T any](p *Program, s []T) Arg {
	p.memory = append(p.memory, s)
	return Arg{Value: uintptr(unsafe.Pointer(unsafe.SliceData(s)))}
}

// Do appends a call. What and path are for the error message if the call fails. The returned step
// is valid until the next call of a method.
func (p *Program) Do(what, path string, number uintptr, args ...Arg) *Step {
	s := Step{Number: number, What: what, Path: path}
	copy(s.Args[:], args)
	p.Steps = append(p.Steps, s)
	return &p.Steps[len(p.Steps)-1]
}

// Get appends a call and names its result.
func (p *Program) Get(what, path string, number uintptr, args ...Arg) Register {
	p.regs = append(p.regs, ^uintptr(0)) // not a descriptor
	r := Register(len(p.regs))
	p.Do(what, path, number, args...).save = r
	return r
}

// Close appends a call that closes a descriptor.
func (p *Program) Close(r Register) { p.Do("close", "", unix.SYS_CLOSE, r.Arg()) }

// Identity is the device and inode of a file as it was when the plan was made.
type Identity struct {
	Dev, Ino uint64
	another  bool // the check fails if the file is this one
	got      unix.Stat_t
}

// Identify appends a check that fails unless a descriptor refers to the file with this identity.
func (p *Program) Identify(name string, fd Register, dev, ino uint64) {
	id := &Identity{Dev: dev, Ino: ino}
	p.Do("look at", name, unix.SYS_FSTAT, fd.Arg(), Pointer(p, &id.got)).Same = id
}

// Differ appends a check that fails if a path leads to the file with this identity.
func (p *Program) Differ(what, name string, dev, ino uint64) {
	id := &Identity{Dev: dev, Ino: ino, another: true}
	p.Do(what, name, sysFstatat, CwdFD, p.Text(name), Pointer(p, &id.got), Val(0)).Same = id
}

// Look appends a check that fails unless a path leads, without links, to the directory with this identity.
func (p *Program) Look(name string, dev, ino uint64) {
	how := Pointer(p, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	fd := p.Get("open", name, unix.SYS_OPENAT2, CwdFD, p.Text(name), how, Val(unix.SizeofOpenHow))
	p.Identify(name, fd, dev, ino)
	p.Close(fd)
}

// Absent appends a check that fails if a path leads anywhere.
func (p *Program) Absent(name string) {
	p.IfThere(func() {
		how := Pointer(p, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
		fd := p.Get("open", name, unix.SYS_OPENAT2, CwdFD, p.Text(name), how, Val(unix.SizeofOpenHow))
		p.Identify(name, fd, 0, 0) // no file has this identity
	})
}

// Try appends the calls of f. When one of them fails, the program continues after them.
func (p *Program) Try(f func()) {
	begin := len(p.Steps)
	f()
	for i := begin; i < len(p.Steps); i++ {
		p.Steps[i].alt = len(p.Steps)
	}
}

// Either appends the calls of f and of g. If a call of f fails, the program makes those of g.
func (p *Program) Either(f, g func()) { p.either(anyFailure, f, g) }

// IfForbidden is Either, but only for EPERM. Any other error of a call of f ends the program.
func (p *Program) IfForbidden(f, g func()) { p.either(forbidden, f, g) }

func (p *Program) either(on failures, f, g func()) {
	begin := len(p.Steps)
	f()
	// Closing an invalid descriptor always fails, so this call works as a jump.
	p.Do("skip", "", unix.SYS_CLOSE, Arg{Value: ^uintptr(0)})
	at := len(p.Steps)
	for i := begin; i < at-1; i++ {
		p.Steps[i].alt, p.Steps[i].on = at, on
	}
	g()
	p.Steps[at-1].alt = len(p.Steps)
}

// IfThere appends the calls of f. The first of them looks up a path that may be missing. If it is
// missing, the program skips the others. Any other error ends the program: it must not skip a mask
// because a look-up failed for lack of memory or descriptors.
func (p *Program) IfThere(f func()) {
	begin := len(p.Steps)
	f()
	p.Steps[begin].alt, p.Steps[begin].on = len(p.Steps), missing
}

// Run makes the calls in this process. Its error is a *Failure.
func (p *Program) Run() error {
	if step, errno := p.run(); step >= 0 {
		return p.Steps[step].Failure(errno)
	}
	return nil
}

// has reports whether an error is in the set.
//
//go:nosplit
//go:norace
func (f failures) has(e syscall.Errno) bool {
	switch f {
	case missing:
		return e == unix.ENOENT || e == unix.ENOTDIR || e == unix.ELOOP
	case forbidden:
		return e == unix.EPERM
	default:
		return true
	}
}

// run makes the calls and returns the index of the one that failed, or -1.
//
//go:nosplit
//go:norace
func (p *Program) run() (failed int, errno syscall.Errno) {
	for pc := 0; pc < len(p.Steps); {
		s := &p.Steps[pc]
		var a [6]uintptr
		for i := range a {
			a[i] = s.Args[i].Value
			if r := s.Args[i].From; r != 0 {
				a[i] = p.regs[r-1]
			}
		}
		result, _, e := syscall.RawSyscall6(s.Number, a[0], a[1], a[2], a[3], a[4], a[5])
		if e == 0 && (s.Full && result != a[2] || s.Zero && result != 0) {
			e = unix.EPIPE
		}
		if e == 0 && s.Same != nil {
			same := s.Same.got.Ino == s.Same.Ino && s.Same.got.Dev == s.Same.Dev
			if same && s.Same.another {
				e = unix.EEXIST
			} else if !same && !s.Same.another {
				e = unix.ESTALE
			}
		}
		switch {
		case e == unix.EINTR:
			continue
		case e == 0:
			if s.save != 0 {
				p.regs[s.save-1] = result
			}
			pc++
		case s.alt != 0 && s.on.has(e):
			pc = s.alt
		default:
			return pc, e
		}
	}
	return -1, 0
}
