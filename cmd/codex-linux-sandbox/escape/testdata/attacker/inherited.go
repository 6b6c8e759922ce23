package main

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// These attacks use inherited descriptors.

func init() {
	attacks["through"] = through
	attacks["inherited"] = func(args []string) {
		// Try inherited descriptors that are open for reading.
		for _, fd := range []int{0, 3, 4} {
			var st unix.Stat_t
			if unix.Fstat(fd, &st) != nil {
				held(fmt.Sprint("descriptor ", fd), unix.EBADF)
				continue
			}
			if st.Mode&unix.S_IFMT == unix.S_IFDIR {
				f, err := unix.Openat(fd, args[0], unix.O_WRONLY|unix.O_CREAT, 0o600)
				try(fmt.Sprint("create from descriptor ", fd), err)
				_ = unix.Close(f)
				continue
			}
			if st.Mode&unix.S_IFMT == unix.S_IFIFO {
				held(fmt.Sprint("descriptor ", fd), unix.ESPIPE)
				continue
			}
			try(fmt.Sprint("reopen descriptor ", fd), open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDWR))
			try(fmt.Sprint("fchmod descriptor ", fd), unix.Fchmod(fd, st.Mode&0o7777))
			try(fmt.Sprint("futimes descriptor ", fd), unix.Futimes(fd, make([]unix.Timeval, 2)))
		}
	}
	attacks["devices that are open"] = func(args []string) {
		for _, n := range args {
			var st unix.Stat_t
			fd, _ := strconv.Atoi(n)
			if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || uint64(st.Rdev) == unix.Mkdev(1, 3) {
				held("descriptor "+n, unix.EBADF)
				continue
			}
			_, err := unix.Write(fd, []byte("x"))
			try("write to descriptor "+n, err)
		}
	}
	attacks["datagrams"] = func(args []string) {
		// Send a datagram to a named socket, from inherited descriptors.
		to := &unix.SockaddrUnix{Name: args[0]}
		for _, fd := range []int{0, 3} {
			try(fmt.Sprint("send from descriptor ", fd), unix.Sendmsg(fd, []byte("x"), nil, to, 0))
		}
	}
}

// through uses descriptors to read and write files outside of the view. args: a name that can be
// created in a directory outside, and the descriptors.
func through(args []string) {
	for _, n := range args[1:] {
		var st unix.Stat_t
		fd, _ := strconv.Atoi(n)
		if err := unix.Fstat(fd, &st); err != nil {
			held("descriptor "+n, err)
			continue
		}
		switch kind := st.Mode & unix.S_IFMT; {
		case kind == unix.S_IFCHR:
			held("descriptor "+n, unix.ENOTTY) // this is /dev/null
			continue
		case kind == 0:
			breach("have a descriptor of the kernel's: " + n)
			continue
		case kind == unix.S_IFREG:
			readKey("descriptor "+n, fd)
		}
		for _, dir := range []string{"/proc/self/fd/", "/proc/1/fd/"} {
			for _, flags := range []int{unix.O_RDWR, unix.O_WRONLY | unix.O_APPEND} {
				try("write by "+dir+n, open(dir+n, flags|unix.O_NONBLOCK))
			}
			for _, up := range []string{"/", "/../", "/../../"} {
				try("make a file by "+dir+n+up, open(dir+n+up+args[0], unix.O_WRONLY|unix.O_CREAT))
			}
			for _, name := range []string{"", "/file", "/../file", "/../hidden/file"} {
				readKeyAt(unix.AT_FDCWD, dir+n+name)
			}
		}
		for _, name := range []string{"file", "../file", "../hidden/file"} {
			readKeyAt(fd, name)
		}
	}
}

// readKeyAt opens a path relative to a directory, and looks for a key in the file.
func readKeyAt(dir int, name string) {
	what := fmt.Sprintf("%s from directory %d", name, dir)
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		held("read "+what, err)
		return
	}
	readKey(what, fd)
	_ = unix.Close(fd)
}

// readKey reads a file. If the file contains a key, it is outside of the view.
func readKey(what string, fd int) {
	b := make([]byte, 20)
	n, err := unix.Pread(fd, b, 0)
	if strings.Contains(string(b[:max(n, 0)]), "key") {
		breach("read " + what)
	}
	held("read "+what, err)
}
