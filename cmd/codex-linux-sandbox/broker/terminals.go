package broker

import (
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// The command's own pseudoterminals. Landlock grants it none, because the others in /dev/pts are those of the host: of a user's shells, for
// example. The broker makes a new one when the command opens /dev/ptmx, and opens its other end for it. It holds that end: the number of a
// terminal that is gone is used again, and the held file then has no name any more.

// terminals are the terminals of a sandbox.
type terminals struct {
	mu   sync.Mutex
	held []int // the ends in /dev/pts, with O_PATH
}

const multiplexer, terminalDir = "/dev/ptmx", "/dev/pts/"

// openTerminal opens a held device: /dev/ptmx, or a terminal that was made so. mine reports whether it is one of these.
func (k *caller) openTerminal(file int, o opening) (r reply, mine bool) {
	at, err := where(file)
	if err != nil || o.flags&unix.O_ACCMODE != unix.O_RDWR {
		return reply{}, false
	}
	flags := o.flags&(unix.O_ACCMODE|unix.O_NONBLOCK) | unix.O_NOCTTY | unix.O_CLOEXEC
	if at == multiplexer || at == terminalDir+"ptmx" {
		if err := k.ready(); err != nil {
			return failed(err), true
		}
		return k.makeTerminal(file, flags, o), true
	}
	t := &k.terminals
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prune()
	var st, own unix.Stat_t
	if unix.Fstat(file, &st) != nil {
		return reply{}, false
	}
	for _, h := range t.held {
		if unix.Fstat(h, &own) != nil || own.Dev != st.Dev || own.Ino != st.Ino {
			continue
		}
		if err := k.ready(); err != nil {
			return failed(err), true
		}
		fd, err := unix.Open(held(h), flags, 0)
		return opened(fd, err, o), true
	}
	return reply{}, false
}

// makeTerminal opens a new terminal at its first end, and holds the other.
func (k *caller) makeTerminal(file, flags int, o opening) reply {
	fd, err := unix.Open(held(file), flags, 0)
	if err != nil {
		return failed(err)
	}
	other, err := k.terminals.add(fd)
	if err != nil {
		drop(other)
		drop(fd)
		return failed(err)
	}
	return opened(fd, nil, o)
}

func (t *terminals) add(fd int) (int, error) {
	number, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err != nil {
		return -1, err
	}
	// The number belongs to this terminal as long as fd is open.
	other, err := unix.Open(terminalDir+strconv.Itoa(int(number)), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prune()
	if len(t.held) >= maxTerminals {
		return other, unix.ENOSPC
	}
	t.held = append(t.held, other)
	return other, nil
}

// prune drops the terminals that are gone. It is called with mu held.
func (t *terminals) prune() {
	left := t.held[:0]
	for _, h := range t.held {
		var st unix.Stat_t
		at, err := where(h)
		if err == nil && unix.Fstat(h, &st) == nil && at == terminalDir+strconv.Itoa(int(unix.Minor(uint64(st.Rdev)))) {
			left = append(left, h)
		} else {
			drop(h)
		}
	}
	t.held = left
}
