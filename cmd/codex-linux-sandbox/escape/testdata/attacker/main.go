// Command attacker tries to escape from a sandbox. Each of its subcommands is one attack. It prints
// a line for each try: "breach: WHAT" if the try worked or reached a forbidden object, and "held:
// WHAT: ERRNO" if it was refused. At the end it prints "done". It needs only the kernel.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attacks are the subcommands.
var attacks = map[string]func(args []string){}

// legacy makes the attempts that only some architectures support.
var legacy = func(string) {}

// processors is the least number of threads that run Go code. The test switches preemption off. On a machine with one
// processor, a thread that changes memory in a loop would stop the other threads, and so the attack itself.
const processors = 4

// Attacks run in the first thread. In another thread, a process that ptrace has begun to trace would keep this process from
// being reaped.
func init() { runtime.LockOSThread() }

func main() {
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), processors))
	if len(os.Args) < 2 || attacks[os.Args[1]] == nil {
		fmt.Println("broken: no such attack")
		os.Exit(3)
	}
	attacks[os.Args[1]](os.Args[2:])
	fmt.Println("done")
}

func breach(what string) { fmt.Println("breach: " + what) }

func held(what string, err error) {
	var errno unix.Errno
	if errors.As(err, &errno) {
		fmt.Printf("held: %s: %s\n", what, unix.ErrnoName(errno))
		return
	}
	fmt.Printf("held: %s: %v\n", what, err)
}

// broken reports that an attack could not be tried.
func broken(what string, err error) {
	if err != nil {
		fmt.Printf("broken: %s: %v\n", what, err)
		os.Exit(3)
	}
}

// try prints the result of a call that must fail.
func try(what string, err error) {
	if err == nil {
		breach(what)
	} else {
		held(what, err)
	}
}

// at is AT_FDCWD.
const at = ^uintptr(99)

var keep []any

func text(s string) uintptr {
	b := append([]byte(s), 0)
	keep = append(keep, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

func pointer[T any](v *T) uintptr {
	keep = append(keep, v)
	return uintptr(unsafe.Pointer(v))
}

// raw makes a system call.
func raw(nr uintptr, args ...uintptr) (uintptr, unix.Errno) {
	var a [6]uintptr
	copy(a[:], args)
	result, _, errno := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	return result, errno
}

// call makes a system call that is forbidden in the sandbox. Any result other than a refusal means
// that the call reached the kernel's code behind it.
func call(what string, nr uintptr, args ...uintptr) {
	switch _, errno := raw(nr, args...); errno {
	case unix.EPERM, unix.EACCES, unix.EROFS, unix.ENOSYS:
		held(what, errno)
	case 0:
		breach(what + " worked")
	default:
		breach(what + " was reached: " + unix.ErrnoName(errno))
	}
}

// forked calls clone or fork. If the kernel makes the process, it ends at once.
func forked(what string, nr uintptr, args ...uintptr) {
	var a [6]uintptr
	copy(a[:], args)
	pid, _, errno := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno == 0 && pid == 0 {
		for {
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	if errno != 0 {
		held(what, errno)
		return
	}
	breach(what)
	_, _ = unix.Wait4(int(pid), nil, unix.WALL, nil)
}

// errnoOf gives the kernel's error of a file operation.
func open(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}
