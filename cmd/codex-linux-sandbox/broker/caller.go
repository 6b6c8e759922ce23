package broker

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"

	"codex.internal/cmd/codex-linux-sandbox/notify"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// caller is a thread with its stopped call. Its methods copy what the call refers to.
type caller struct {
	*Broker
	*notify.Call
}

// Arguments of the call.
func (k *caller) int(i int) int         { return int(int32(k.Args[i])) }
func (k *caller) uint(i int) uint32     { return uint32(k.Args[i]) }
func (k *caller) proc(at string) string { return "/proc/" + strconv.Itoa(int(k.TID)) + at }

// text copies a string of at most limit bytes with its NUL. It returns ENAMETOOLONG if the string is longer.
func (k *caller) text(address uint64, limit int) (string, error) {
	buf, size := make([]byte, limit), 0
	page := os.Getpagesize()
	for size < limit {
		// Read to the end of a page at most, because the next one may be missing.
		at := address + uint64(size)
		part := buf[size:min(limit, size+page-int(at%uint64(page)))]
		if err := notify.ReadMemory(int(k.TID), at, part); err != nil {
			return "", err
		}
		if end := bytes.IndexByte(part, 0); end >= 0 {
			return string(buf[:size+end]), nil
		}
		size += len(part)
	}
	return "", unix.ENAMETOOLONG
}

// path copies a path.
func (k *caller) path(i int) (string, error) { return k.text(k.Args[i], maxPath) }

// mask returns the umask of the caller.
func (k *caller) mask() (uint32, error) {
	if !k.umaskCalls.Load() {
		return k.umask, nil
	}
	status, err := os.ReadFile(k.proc("/status"))
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(status), "\nUmask:\t")
	text, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(text, 8, 32)
	if !found || err != nil {
		return 0, unix.EPERM
	}
	return uint32(mask), nil
}

// descriptor opens the file of one of the caller's descriptors with O_PATH.
func (k *caller) descriptor(number int) (int, error) {
	fd, err := unix.Open(k.proc("/fd/"+strconv.Itoa(number)), unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		err = unix.EBADF
	}
	return fd, err
}

// errChecked is the error of ready in the control of the attacks.
var errChecked = errors.New("checked")

// ready returns an error unless the caller still waits, so that the call may be made. It is the last step before each call.
func (k *caller) ready() error {
	if Control {
		return errChecked
	}
	return k.listener.Valid(k.Call)
}

// base opens the directory at which the resolution of a path begins. It returns AT_FDCWD for an absolute path: all roots are the same,
// because the filter refuses chroot. The rest of a path through one of the caller's own descriptors in /proc, or in /dev/fd, begins
// there; if nothing is left of it, the descriptor itself is meant.
func (k *caller) base(dir int, name string) (fd int, rest string, err error) {
	if number, rest, ok := k.ownDescriptor(name); ok {
		fd, err = k.descriptor(number)
		if errors.Is(err, unix.EBADF) {
			err = unix.ENOENT
		}
		return fd, rest, err
	}
	switch {
	case strings.HasPrefix(name, "/"):
		return unix.AT_FDCWD, name, nil
	case name == "":
		return -1, "", unix.ENOENT
	case dir == unix.AT_FDCWD:
		fd, err = unix.Open(k.proc("/cwd"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	default:
		fd, err = k.descriptor(dir)
	}
	return fd, name, err
}

// standard are the names in /dev of the first three descriptors.
var standard = map[string]int{"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}

// ownDescriptor splits a path that leads through a link of /proc to one of the caller's own descriptors.
func (k *caller) ownDescriptor(name string) (number int, rest string, ok bool) {
	if number, ok := standard[name]; ok {
		return number, "", true
	}
	after, found := strings.CutPrefix(name, "/dev/fd/")
	if !found {
		if after, found = strings.CutPrefix(name, "/proc/"); !found {
			return 0, "", false
		}
		var who string
		if who, after, found = strings.Cut(after, "/fd/"); !found || !k.own(who) {
			return 0, "", false
		}
	}
	text, rest, _ := strings.Cut(after, "/")
	rest = strings.TrimLeft(rest, "/") // the rest of a path is never absolute
	number, err := strconv.Atoi(text)
	if err != nil || number < 0 || strconv.Itoa(number) != text {
		return 0, "", false
	}
	if rest == "" && strings.HasSuffix(after, "/") {
		rest = "."
	}
	return number, rest, true
}

// own reports whether a name in /proc is that of the caller or its process.
func (k *caller) own(who string) bool {
	switch who {
	case "self", "thread-self", strconv.Itoa(int(k.TID)):
		return true
	}
	if _, err := strconv.Atoi(who); err != nil {
		return false
	}
	pid, err := notify.ProcessOf(int(k.TID))
	return err == nil && strconv.Itoa(pid) == who
}

// hold opens the file at a path with O_PATH. flags may have O_NOFOLLOW and O_DIRECTORY; resolve has the caller's own restrictions.
// ELOOP also means that a link of /proc is in the way.
func hold(base int, name string, flags int, resolve uint64) (int, error) {
	return plan.Openat2(base, name, &unix.OpenHow{Flags: uint64(unix.O_PATH | unix.O_CLOEXEC | flags), Resolve: resolve | unix.RESOLVE_NO_MAGICLINKS})
}

// drop closes a descriptor that base or hold has returned.
func drop(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}

// held is the path that leads to the file of a descriptor of the broker, and follows no link.
func held(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// where returns the kernel's path of a held file. What is in no file system has another form of name.
func where(fd int) (string, error) { return os.Readlink(held(fd)) }

// split splits a path into its directory and its last component, which keeps the slashes behind it.
func split(name string) (dir, last string) {
	end := len(strings.TrimRight(name, "/"))
	if end == 0 && name != "" {
		return name, "" // the root
	}
	begin := strings.LastIndexByte(name[:end], '/') + 1
	dir, last = name[:begin], name[begin:]
	if last != strings.Trim(last, "/") {
		last = name[begin:end] + "/"
	}
	if dir == "" {
		dir = "."
	}
	return dir, last
}
