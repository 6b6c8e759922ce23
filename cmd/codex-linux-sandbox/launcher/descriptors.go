//go:build linux

package launcher

import (
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// inheritedFile is a descriptor that the command inherits, for a file that
// lies outside of its view: by way of /proc/self/fd it could open the file
// again, for writing, and it could change the mode of a file or a device that
// is open for reading. It is opened again inside, at the same path.
type inheritedFile struct {
	fd    int
	path  string
	flags int
	at    int64
}

// memoryDevices are the devices of major number 1 by their minor numbers, as
// the view has them.
var memoryDevices = map[uint32]string{3: "null", 5: "zero", 7: "full", 8: "random", 9: "urandom"}

// inheritedFiles finds the descriptors that need it. What is open for writing
// stays as it is: whoever passed it meant that. So do pipes, sockets and
// terminals.
func inheritedFiles(highest int) []inheritedFile {
	var files []inheritedFile
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd > highest {
			continue
		}
		if f, ok := reopenable(fd); ok {
			files = append(files, f)
		}
	}
	return files
}

func reopenable(fd int) (f inheritedFile, ok bool) {
	var st unix.Stat_t
	own, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil || own&unix.FD_CLOEXEC != 0 || unix.Fstat(fd, &st) != nil {
		return f, false
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return f, false
	}
	f = inheritedFile{fd: fd, flags: flags & (unix.O_ACCMODE | unix.O_APPEND | unix.O_NONBLOCK)}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFDIR:
		ok = flags&unix.O_ACCMODE == unix.O_RDONLY
	case unix.S_IFCHR:
		if name, memory := memoryDevices[unix.Minor(uint64(st.Rdev))]; memory && unix.Major(uint64(st.Rdev)) == 1 { //nolint:unconvert // differs by architecture
			f.path = "/dev/" + name
			return f, true
		}
	}
	if f.path, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err != nil || !path.IsAbs(f.path) {
		return f, false
	}
	f.at, _ = unix.Seek(fd, 0, unix.SEEK_CUR)
	return f, ok
}

// reopen appends what opens the files again. One that the view does not show
// stays as it is.
func (p *program) reopen(files []inheritedFile) {
	for _, f := range files {
		p.ifThere(func() {
			how := pointer(p, &unix.OpenHow{Flags: uint64(f.flags) | unix.O_CLOEXEC | unix.O_NOCTTY, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
			fd := p.get("open", f.path, unix.SYS_OPENAT2, cwdFD, p.text(f.path), how, val(unix.SizeofOpenHow))
			if f.at > 0 {
				p.do("seek in", f.path, unix.SYS_LSEEK, fd.arg(), val(f.at), val(unix.SEEK_SET))
			}
			p.do("replace the descriptor of", f.path, unix.SYS_DUP3, fd.arg(), val(f.fd), val(0))
			p.close(fd)
		})
	}
}
