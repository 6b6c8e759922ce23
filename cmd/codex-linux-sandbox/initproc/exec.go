package initproc

import (
	"path"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// defaultPath is the search path for commands if PATH is not set.
const defaultPath = "/bin:/usr/bin"

// Exec is a prepared execvp: the files to try, in order. The kernel looks them up inside the view.
type Exec struct {
	candidates []*byte
	fd         int // if not -1, execute this descriptor instead
	empty      []byte
	argv, envp []*byte
	shell      []byte
	script     []*byte // argv for a file whose format the kernel does not know
}

// PrepareExec prepares the execution of argv with an environment. arg0 is argv[0] of the command. If fd
// >= 0, Exec executes that descriptor, whatever argv says. It returns an error if a word contains a NUL.
func PrepareExec(argv, env []string, arg0 string, fd int) (*Exec, error) {
	e := &Exec{fd: fd, empty: []byte{0}, shell: []byte("/bin/sh\x00")}
	name := argv[0]
	files := []string{name}
	if !strings.Contains(name, "/") {
		files = nil
		search := defaultPath
		for _, kv := range env {
			if value, ok := strings.CutPrefix(kv, "PATH="); ok {
				search = value
			}
		}
		for dir := range strings.SplitSeq(search, ":") {
			if dir == "" {
				dir = "."
			}
			files = append(files, path.Join(dir, name))
		}
	}
	words := append([]string{arg0}, argv[1:]...)
	var err error
	if e.argv, err = syscall.SlicePtrFromStrings(words); err != nil {
		return nil, err
	}
	if e.envp, err = syscall.SlicePtrFromStrings(env); err != nil {
		return nil, err
	}
	e.script = append([]*byte{&e.shell[0], nil}, e.argv[1:]...)
	if e.candidates, err = syscall.SlicePtrFromStrings(files); err != nil {
		return nil, err
	}
	return e, nil
}

// Run executes the first existing candidate, in this process. It returns only if that fails. An
// error of a candidate that may not be executed takes precedence over one of a missing candidate.
//
//go:nosplit
//go:norace
func (e *Exec) Run() syscall.Errno {
	argv, envp := uintptr(unsafe.Pointer(&e.argv[0])), uintptr(unsafe.Pointer(&e.envp[0]))
	if e.fd >= 0 {
		_, _, errno := syscall.RawSyscall6(unix.SYS_EXECVEAT, uintptr(e.fd), uintptr(unsafe.Pointer(&e.empty[0])), argv, envp, unix.AT_EMPTY_PATH, 0)
		return errno
	}
	result := unix.ENOENT
	for _, file := range e.candidates {
		if file == nil {
			break
		}
		_, _, errno := syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(file)), argv, envp)
		switch errno {
		case unix.ENOENT, unix.ENOTDIR:
		case unix.EACCES:
			result = errno
		case unix.ENOEXEC:
			// Store the pointer as a number. If the garbage collector was running at the fork, storing
			// a pointer would run the write barrier, which takes locks when its buffer is full.
			*(*uintptr)(unsafe.Pointer(&e.script[1])) = uintptr(unsafe.Pointer(file))
			_, _, errno = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(&e.shell[0])), uintptr(unsafe.Pointer(&e.script[0])), envp)
			return errno
		default:
			return errno
		}
	}
	return result
}
