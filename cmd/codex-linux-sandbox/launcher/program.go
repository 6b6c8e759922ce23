package launcher

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A program is what a forked child does before the command runs: a list of
// system calls, prepared before the fork. Between fork and exec a child of a
// Go process has no Go runtime (no other threads, no locks that anybody would
// release), so it runs no Go code but the loop that makes the calls.
//
// A call may use the results of earlier ones, which are kept in registers.
type program struct {
	steps []step
	regs  []uintptr
	keep  []any // memory that the arguments point to
}

// newProgram returns a program without steps.
func newProgram() *program { return &program{steps: make([]step, 0, usualSteps)} }

// step is one system call.
type step struct {
	nr   uintptr
	args [6]uintptr
	regs [6]register // where arguments come from that are results
	save register    // where its own result goes
	alt  int         // where to go on when it fails; 0: the program fails
	only bool        // alt is only for what is not there: see missingFile
	full bool        // a result that is not the third argument is a failure too
	none bool        // a result that is not 0 is a failure too
	same *identity   // what was looked at must be this
	what string      // for people: what it is for
	path string      // for people: and which path it concerns
}

// usualSteps is how many steps a program usually has at most.
const usualSteps = 512

// register names the result of a call; the zero value is none.
type register int

// failure says which step failed, and how.
type failure struct {
	what, path string
	nr         uintptr
	errno      syscall.Errno
}

func (f *failure) Error() string {
	what := f.what
	if f.path != "" {
		what += " " + f.path
	}
	return what + ": " + errnoText(f.errno) + missing(f.nr, f.errno)
}

func (f *failure) Unwrap() error { return f.errno }

// fail is the failure of a step.
func (s *step) fail(errno syscall.Errno) *failure { return &failure{s.what, s.path, s.nr, errno} }

// errnoText is the system's words with the number, as everywhere in codex.
func errnoText(e syscall.Errno) string {
	text := []byte(e.Error())
	if len(text) > 0 && 'a' <= text[0] && text[0] <= 'z' {
		text[0] -= 'a' - 'A'
	}
	return fmt.Sprintf("%s (os error %d)", text, int(e))
}

// reg makes an argument of a call's result.
type arg struct {
	value uintptr
	reg   register
}

func val[T ~int | ~int64 | ~uint | ~uint32 | ~uint64 | ~uintptr](v T) arg {
	return arg{value: uintptr(v)}
}

func (r register) arg() arg { return arg{reg: r} }

// text makes an argument of a path or another string.
func (p *program) text(s string) arg { return slice(p, append([]byte(s), 0)) }

// pointer makes an argument of a pointer to what the child reads there.
func pointer[T any](p *program, to *T) arg {
	p.keep = append(p.keep, to)
	return arg{value: uintptr(unsafe.Pointer(to))}
}

// slice makes an argument of the address of a slice's elements.
func slice[T any](p *program, s []T) arg {
	p.keep = append(p.keep, s)
	return arg{value: uintptr(unsafe.Pointer(unsafe.SliceData(s)))}
}

// do appends a call. What and path are for the message if it fails.
func (p *program) do(what, path string, nr uintptr, args ...arg) *step {
	s := step{nr: nr, what: what, path: path}
	for i, a := range args {
		s.args[i], s.regs[i] = a.value, a.reg
	}
	p.steps = append(p.steps, s)
	return &p.steps[len(p.steps)-1]
}

// get appends a call and names its result.
func (p *program) get(what, path string, nr uintptr, args ...arg) register {
	p.regs = append(p.regs, ^uintptr(0)) // no descriptor
	r := register(len(p.regs))
	p.do(what, path, nr, args...).save = r
	return r
}

// identity is what a file was when it was looked at before.
type identity struct {
	got      unix.Stat_t
	dev, ino uint64
}

// look appends what fails unless a path leads to that directory, without links.
func (p *program) look(name string, dev, ino uint64) {
	how := pointer(p, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	fd := p.get("open", name, unix.SYS_OPENAT2, cwdFD, p.text(name), how, val(unix.SizeofOpenHow))
	p.identify(name, fd, dev, ino)
	p.close(fd)
}

// absent appends what fails if a path leads anywhere. Nothing is that file.
func (p *program) absent(name string) {
	p.ifThere(func() {
		how := pointer(p, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
		fd := p.get("open", name, unix.SYS_OPENAT2, cwdFD, p.text(name), how, val(unix.SizeofOpenHow))
		p.identify(name, fd, 0, 0)
	})
}

// identify appends what fails unless a descriptor is of that file.
func (p *program) identify(name string, fd register, dev, ino uint64) {
	id := &identity{dev: dev, ino: ino}
	p.do("look at", name, unix.SYS_FSTAT, fd.arg(), pointer(p, &id.got)).same = id
}

func (p *program) close(r register) { p.do("close", "", unix.SYS_CLOSE, r.arg()) }

// try appends the calls of f; when one of them fails the program goes on
// after them.
func (p *program) try(f func()) {
	begin := len(p.steps)
	f()
	for i := begin; i < len(p.steps); i++ {
		p.steps[i].alt = len(p.steps)
	}
}

// either appends the calls of f and those of g, which are made when one of
// f's fails.
func (p *program) either(f, g func()) {
	begin := len(p.steps)
	f()
	// Closing no descriptor always fails, which makes it a jump.
	p.do("skip", "", unix.SYS_CLOSE, arg{value: ^uintptr(0)})
	at := len(p.steps)
	for i := begin; i < at-1; i++ {
		p.steps[i].alt = at
	}
	g()
	p.steps[at-1].alt = len(p.steps)
}

// ifThere appends the calls of f, of which the first looks for something that
// may be missing. If it is missing, the others are left out. Any other error
// ends the program: a mask must not be left out because a lookup failed for
// want of memory or descriptors.
func (p *program) ifThere(f func()) {
	begin := len(p.steps)
	f()
	p.steps[begin].alt, p.steps[begin].only = len(p.steps), true
}

// missingFile reports whether an error says that a path leads to no file.
//
//go:nosplit
//go:norace
func missingFile(e syscall.Errno) bool {
	return e == unix.ENOENT || e == unix.ENOTDIR || e == unix.ELOOP
}

// run makes the calls and returns the one that failed, or -1.
//
//go:nosplit
//go:norace
func (p *program) run() (failed int, errno syscall.Errno) {
	for pc := 0; pc < len(p.steps); {
		s := &p.steps[pc]
		var a [6]uintptr
		for i := range a {
			a[i] = s.args[i]
			if r := s.regs[i]; r != 0 {
				a[i] = p.regs[r-1]
			}
		}
		result, _, e := syscall.RawSyscall6(s.nr, a[0], a[1], a[2], a[3], a[4], a[5])
		if e == 0 && (s.full && result != a[2] || s.none && result != 0) {
			e = unix.EPIPE
		}
		if e == 0 && s.same != nil && (s.same.got.Ino != s.same.ino || s.same.got.Dev != s.same.dev) {
			e = unix.ESTALE
		}
		switch {
		case e == unix.EINTR:
			continue
		case e == 0:
			if s.save != 0 {
				p.regs[s.save-1] = result
			}
			pc++
		case s.alt != 0 && (!s.only || missingFile(e)):
			pc = s.alt
		default:
			return pc, e
		}
	}
	return -1, 0
}
