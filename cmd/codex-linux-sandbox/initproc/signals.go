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

// Orphaned is the signal that the init gets when the launcher has ended, if there is no PID
// namespace.
const Orphaned = unix.SIGPWR

// Ignored reports whether a signal was ignored when the launcher was started, for example by nohup.
// The command must then ignore it as well.
func Ignored(s syscall.Signal) bool {
	return s != unix.SIGINT && s != unix.SIGQUIT && signal.Ignored(s)
}

// Bit returns the bit of a signal in a set of signals.
func Bit(s syscall.Signal) uint64 { return 1 << (uint(s) - 1) }

// ignoring is SIG_IGN, the handler of a signal that is ignored.
const ignoring = 1

// Action is the kernel's struct sigaction. The zero value is the default action.
type Action struct{ handler, flags, restorer, mask uintptr }

// Ignore makes the kernel ignore a signal, and returns the previous action. It bypasses the Go
// runtime, which would start threads for this.
func Ignore(s syscall.Signal) (old Action) {
	now := Action{handler: ignoring}
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&now)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	return old
}

// SetAction sets the action of a signal in the kernel, bypassing the Go runtime.
func SetAction(s syscall.Signal, a *Action) {
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(a)), 0, 8, 0, 0)
}

func sigprocmask(set, old *uint64) {
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK,
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), 8, 0, 0)
}

// resetSignals appends steps that undo the Go runtime's signal handling for the command: handled
// signals get the default action, ignored signals stay ignored, and the mask is restored.
func (p *Program) resetSignals(mask *uint64) {
	initial := Pointer(p, &Action{})
	for s := syscall.Signal(1); s <= 64; s++ {
		if s != unix.SIGKILL && s != unix.SIGSTOP && !Ignored(s) {
			p.Do("reset a signal", s.String(), unix.SYS_RT_SIGACTION, Val(s), initial, Val(0), Val(8))
		}
	}
	p.Do("restore the signal mask", "", unix.SYS_RT_SIGPROCMASK, Val(unix.SIG_SETMASK), Pointer(p, mask), Val(0), Val(8))
}
