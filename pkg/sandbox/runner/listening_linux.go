package runner

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"codex.internal/pkg/wire/logtext"
	"golang.org/x/sys/unix"
)

const (
	// maxSocketTable bounds the part that is read of the table of a network's TCP
	// sockets, in bytes: 7,000 listeners, which come first in it.
	maxSocketTable = 1 << 20
	// socketChunk is how much of it is read at a time.
	socketChunk = 16 << 10
	// maxProcessFiles bounds the descriptors of one process that are examined, and
	// maxFiles those of all processes of a call: each costs a microsecond.
	maxProcessFiles = 4096
	maxFiles        = 65_536
	// maxListeners bounds the reported listeners of one family.
	maxListeners = 256
	// maxCommand bounds a command line, in bytes.
	maxCommand = 256
)

// stateListen is TCP_LISTEN in a table of sockets.
const stateListen = "0A"

// Listening returns, for each family, the TCP sockets of its network on which one of its processes
// listens. A socket that several processes have is attributed to the lowest pid. truncated means
// that a limit was reached or ctx has ended, so that the result may be incomplete. Listening reads
// /proc and enters no network. It omits processes that this program may not inspect, and launchers
// and their helper processes.
func Listening(ctx context.Context, families []Family) (found [][]Listener, truncated bool) {
	s := search{ctx: ctx, tables: make(map[networkID]map[uint64]netip.AddrPort), left: maxFiles}
	found = make([][]Listener, len(families))
	for i, f := range families {
		found[i] = s.family(f)
	}
	return found, s.truncated
}

// networkID identifies a network while one of its processes or descriptors exists.
type networkID struct{ dev, ino uint64 }

// search is a call of Listening.
type search struct {
	ctx       context.Context
	tables    map[networkID]map[uint64]netip.AddrPort // the listening sockets by their inodes
	left      int                                     // descriptors that may be examined
	truncated bool
}

func networkOf(at int, name string, flags int) (networkID, error) {
	var st unix.Stat_t
	err := unix.Fstatat(at, name, &st, flags)
	return networkID{st.Dev, st.Ino}, err
}

func (s *search) family(f Family) []Listener {
	at, name, flags := unix.AT_FDCWD, "/proc/self/ns/net", 0
	if f.Network != nil {
		at, name, flags = int(f.Network.Fd()), "", unix.AT_EMPTY_PATH
	}
	network, err := networkOf(at, name, flags)
	if err != nil {
		return nil
	}
	listeners := make(map[uint64]Listener)
	for _, pid := range f.Pids {
		if s.ctx.Err() != nil || len(listeners) >= maxListeners || s.left <= 0 {
			s.truncated = true
			break
		}
		d, err := openProcess(pid, 0)
		if err != nil {
			continue // it has ended
		}
		// Launchers have listeners inside for the network proxy, which are not ports of
		// the command.
		if of, err := networkOf(int(d.Fd()), "ns/net", 0); err == nil && of == network && (f.Network == nil || d.isCommand()) {
			s.process(d, network, listeners)
		}
		_ = d.Close()
	}
	list := make([]Listener, 0, len(listeners))
	for _, l := range listeners {
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b Listener) int {
		return cmp.Or(cmp.Compare(a.Address.Port(), b.Address.Port()), a.Address.Compare(b.Address), cmp.Compare(a.Pid, b.Pid))
	})
	return list
}

// process adds the listeners of one process.
func (s *search) process(d *processDir, network networkID, listeners map[uint64]Listener) {
	table := s.table(d, network)
	if len(table) == 0 {
		return
	}
	fd, err := unix.Openat(int(d.Fd()), "fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	dir := os.NewFile(uintptr(fd), "fd")
	defer dir.Close()
	most := min(maxProcessFiles, s.left)
	names, _ := dir.Readdirnames(most)
	s.left -= len(names)
	s.truncated = s.truncated || len(names) == most
	command := ""
	for _, name := range names {
		inode, ok := socketInode(fd, name)
		address, listens := table[inode]
		if _, known := listeners[inode]; !ok || !listens || known {
			continue
		}
		if len(listeners) >= maxListeners {
			s.truncated = true
			return
		}
		if command == "" {
			command = d.command()
		}
		listeners[inode] = Listener{Address: address, Pid: d.pid, Command: command}
	}
}

// socketInode returns the inode number of the socket to which a descriptor refers.
func socketInode(dir int, name string) (uint64, bool) {
	var target [64]byte
	n, err := unix.Readlinkat(dir, name, target[:])
	if err != nil {
		return 0, false
	}
	number, ok := strings.CutPrefix(string(target[:n]), "socket:[")
	if !ok {
		return 0, false
	}
	inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64)
	return inode, err == nil
}

// command returns the command line of a process or, without one, its name.
func (d *processDir) command() string {
	line := d.read("cmdline", 2*maxCommand)
	if len(line) == 0 {
		line = d.read("comm", maxCommand)
	}
	text := strings.ToValidUTF8(string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})), "\uFFFD")
	return logtext.Clip(strings.TrimSpace(text), maxCommand)
}

// table returns the listening sockets of a network; d is a process in it. The table of
// this program's network is read from this program, because a process could have left it
// meanwhile.
func (s *search) table(d *processDir, network networkID) map[uint64]netip.AddrPort {
	if table, ok := s.tables[network]; ok {
		return table
	}
	table := make(map[uint64]netip.AddrPort)
	dir := int(d.Fd())
	prefix := "net/"
	if own, err := networkOf(unix.AT_FDCWD, "/proc/self/ns/net", 0); err == nil && own == network {
		dir, prefix = unix.AT_FDCWD, "/proc/self/net/"
	}
	for _, name := range []string{"tcp", "tcp6"} {
		s.truncated = !readListening(dir, prefix+name, table) || s.truncated
	}
	s.tables[network] = table
	return table
}

// readListening adds the listening sockets of a file of /proc/net to a table. They come
// before all others, so many connections cost no more. It returns false if the table has
// more listeners than it reads.
func readListening(dir int, path string, table map[uint64]netip.AddrPort) bool {
	fd, err := unix.Openat(dir, path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return true // a kernel without IPv6
	}
	defer unix.Close(fd)
	buf := make([]byte, socketChunk)
	kept := 0 // of a line whose end was not read
	for total := 0; total < maxSocketTable; {
		n, err := unix.Read(fd, buf[kept:])
		if err != nil || n <= 0 {
			parseListening(buf[:kept], table)
			return true
		}
		total += n
		text := buf[:kept+n]
		whole := bytes.LastIndexByte(text, '\n') + 1
		if !parseListening(text[:whole], table) {
			return true
		}
		if kept = copy(buf, text[whole:]); kept == len(buf) {
			return false // no valid line is that long
		}
	}
	return false
}

// parseListening adds the sockets of a table of TCP sockets, as in /proc/net/tcp, up to the
// first that does not listen. It returns false if it finds such a one.
func parseListening(text []byte, table map[uint64]netip.AddrPort) bool {
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) < 10 || fields[0] == "sl" {
			continue
		}
		if fields[3] != stateListen {
			return false
		}
		address, ok := parseSocketAddress(fields[1])
		inode, err := strconv.ParseUint(fields[9], 10, 64)
		if ok && err == nil && inode != 0 {
			table[inode] = address
		}
	}
	return true
}

// parseSocketAddress parses an address of /proc/net/tcp or tcp6: words of four bytes, each
// in the order of the machine, and the port.
func parseSocketAddress(text string) (netip.AddrPort, bool) {
	host, port, ok := strings.Cut(text, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	raw, hexErr := hex.DecodeString(host)
	if !ok || err != nil || hexErr != nil || len(raw) != 4 && len(raw) != 16 {
		return netip.AddrPort{}, false
	}
	for word := raw; len(word) > 0; word = word[4:] {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	address, _ := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(address.Unmap(), uint16(number)), true
}
