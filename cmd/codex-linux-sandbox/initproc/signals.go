package initproc

import (
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Forwarded are the signals that the launcher passes to the command.
var Forwarded = []syscall.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM,
	unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGCONT,
}

// Orphaned is the signal that the init gets when the launcher is gone, if there is no PID namespace.
const Orphaned = unix.SIGPWR

// Ignored reports whether the launcher was started with a signal ignored, as
// by nohup, and the command is to be as well. Shells start background jobs with SIGINT and SIGQUIT
// ignored. These are not inherited: a signal that is sent to the launcher is intended.
func Ignored(s syscall.Signal) bool {
	return s != unix.SIGINT && s != unix.SIGQUIT && signal.Ignored(s)
}

// Bit returns a signal as an element of a set of signals.
func Bit(s syscall.Signal) uint64 { return 1 << (uint(s) - 1) }

// ignoring is SIG_IGN, the handler of a signal that is ignored.
const ignoring = 1

// Action is the kernel's struct sigaction. The zero value is the default action.
type Action struct{ handler, flags, restorer, mask uintptr }

// Ignore has the kernel ignore a signal, and returns what it did before. The
// Go runtime, which would start threads for it, does not know.
func Ignore(s syscall.Signal) (old Action) {
	now := Action{handler: ignoring}
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&now)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	return old
}

// SetAction has the kernel do something else with a signal. The Go runtime does not know.
func SetAction(s syscall.Signal, a *Action) {
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(a)), 0, 8, 0, 0)
}

func sigprocmask(set, old *uint64) {
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK,
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), 8, 0, 0)
}

// resetSignals appends what undoes, for the command, that the Go runtime
// handles signals: handled ones get their default, ignored ones stay so, and
// the mask is what it was.
func (p *Program) resetSignals(mask *uint64) {
	initial := Pointer(p, &Action{})
	for s := syscall.Signal(1); s <= 64; s++ {
		if s != unix.SIGKILL && s != unix.SIGSTOP && !Ignored(s) {
			p.Do("reset a signal", s.String(), unix.SYS_RT_SIGACTION, Val(s), initial, Val(0), Val(8))
		}
	}
	p.Do("restore the signal mask", "", unix.SYS_RT_SIGPROCMASK, Val(unix.SIG_SETMASK), Pointer(p, mask), Val(0), Val(8))
}
