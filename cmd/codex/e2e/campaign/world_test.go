package campaign

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// state is the state of a file that must not change.
type state struct {
	dev, ino uint64
	mode     uint32
	uid, gid uint32
	size     int64
	mtime    unix.Timespec
	content  string // for regular files and links
}

// world is a scenario laid out on disk.
type world struct {
	*scenario
	top    string
	fd     int // a descriptor of top; it stays valid even if a directory above is renamed
	before map[string]state
	// listeners are the listening sockets, by the path of the node. Each counts its connections.
	listeners map[string]*listener
	fifos     map[string]*os.File
	tcp       *listener
	abstract  *listener
}

type listener struct {
	net.Listener
	accepted atomic.Int64
	done     chan struct{}
}

func listen(network, address string) (*listener, error) {
	inner, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	if u, ok := inner.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	l := &listener{Listener: inner, done: make(chan struct{})}
	go l.run()
	return l, nil
}

func (l *listener) run() {
	defer close(l.done)
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		l.accepted.Add(1)
		_ = c.Close()
	}
}

func (l *listener) stop() {
	_ = l.Close()
	<-l.done
}

func (s *scenario) canary(i int) string { return fmt.Sprintf("CANARY-%x-%d;", s.Seed, i) }

// lay creates the tree of a scenario below top.
func lay(s *scenario, top string) (*world, error) {
	w := &world{scenario: s, top: top, listeners: make(map[string]*listener), fifos: make(map[string]*os.File)}
	var err error
	if w.fd, err = unix.Open(top, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return nil, err
	}
	if w.tcp, err = listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	if w.abstract, err = listen("unix", "@"+filepath.Base(filepath.Dir(top))+filepath.Base(top)); err != nil {
		return nil, err
	}
	for i, n := range s.Nodes {
		if err := w.make(i, n); err != nil {
			return nil, fmt.Errorf("make %s: %w", n.Path, err)
		}
	}
	for _, n := range slices.Backward(s.Nodes) {
		at := filepath.Join(top, n.Path)
		if err := os.Lchown(at, s.UID, s.UID); err != nil {
			return nil, err
		}
		if n.Kind != "link" && n.Kind != "hard" {
			if err := os.Chmod(at, os.FileMode(n.Mode)); err != nil {
				return nil, err
			}
		}
	}
	w.before = w.snapshot()
	return w, nil
}

func (w *world) make(i int, n node) error {
	at := filepath.Join(w.top, n.Path)
	switch n.Kind {
	case "dir":
		return os.Mkdir(at, 0o755)
	case "file":
		text := strings.ReplaceAll(n.Text, "@", w.top)
		if text == "" {
			text = w.canary(i)
		}
		return os.WriteFile(at, []byte(text), 0o644)
	case "link":
		return os.Symlink(strings.ReplaceAll(n.Text, "@", w.top), at)
	case "hard":
		return os.Link(filepath.Join(w.top, n.Text), at)
	case "fifo":
		if err := unix.Mkfifo(at, 0o666); err != nil {
			return err
		}
		// The test keeps the FIFO open, so that it always has a reader and a writer.
		f, err := os.OpenFile(at, os.O_RDWR|unix.O_NONBLOCK, 0)
		w.fifos[n.Path] = f
		return err
	default:
		// Addresses of Unix sockets must be short, so use the descriptor.
		l, err := listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", w.fd, n.Path))
		if err != nil {
			return err
		}
		w.listeners[n.Path] = l
		return os.Chmod(at, 0o777)
	}
}

func (w *world) close() {
	for _, l := range w.listeners {
		l.stop()
	}
	for _, f := range w.fifos {
		_ = f.Close()
	}
	w.tcp.stop()
	w.abstract.stop()
	_ = unix.Close(w.fd)
}

// at returns a path of a node that stays valid if top is renamed.
func (w *world) at(rel string) string { return "/proc/self/fd/" + strconv.Itoa(w.fd) + "/" + rel }

// look returns the state of a path; ok is false if it does not exist.
func (w *world) look(rel string) (s state, ok bool) {
	var st unix.Stat_t
	if unix.Lstat(w.at(rel), &st) != nil {
		return s, false
	}
	s = state{dev: st.Dev, ino: st.Ino, mode: st.Mode, uid: st.Uid, gid: st.Gid, size: st.Size, mtime: st.Mtim}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if f, err := os.Open(w.at(rel)); err == nil {
			h := sha256.New()
			_, _ = io.Copy(h, f)
			_ = f.Close()
			s.content = hex.EncodeToString(h.Sum(nil))
		}
	case unix.S_IFLNK:
		s.content, _ = os.Readlink(w.at(rel))
	}
	return s, true
}

func (w *world) snapshot() map[string]state {
	all := make(map[string]state)
	var walk func(rel string)
	walk = func(rel string) {
		s, ok := w.look(rel)
		if !ok {
			return
		}
		all[rel] = s
		if s.mode&unix.S_IFMT != unix.S_IFDIR {
			return
		}
		if list, err := os.ReadDir(w.at(rel)); err == nil {
			for _, e := range list {
				walk(rel + "/" + e.Name())
			}
		}
	}
	if list, err := os.ReadDir(w.at(".")); err == nil {
		for _, e := range list {
			walk(e.Name())
		}
	}
	return all
}

// changes returns the forbidden differences between two states.
func (a state) changes(b state) (list []string) {
	differ := func(what string, is bool) {
		if is {
			list = append(list, what)
		}
	}
	differ("contents", a.content != b.content)
	if a.mode&unix.S_IFMT == unix.S_IFREG {
		differ("size", a.size != b.size)
	}
	differ("mode", a.mode != b.mode)
	differ("owner", a.uid != b.uid || a.gid != b.gid)
	differ("time", a.mtime != b.mtime)
	return list
}

// exposed reports whether docs/security.md permits writes to a FIFO: the FIFO is in a read-only
// path of a writable root, and is not masked. Scenario: t may be written, t/c is read-only, and
// t/c/a/p22 is a FIFO. A read-only mount does not stop writes to the FIFO, and Landlock grants all
// of t (seed 1200359). The landlock backend has no mounts, and refuses such policies.
func (w *world) exposed(fifo string, oracles []*oracle) bool {
	mounts := w.Backend != "landlock" || w.Inside != "" && w.Inside != "landlock"
	return mounts && slices.ContainsFunc(oracles, func(o *oracle) bool {
		return o.canRead(fifo, true) && slices.ContainsFunc(o.rules, func(r rule) bool {
			return within(fifo, r.path) && r.path != fifo && o.access(r.path) == write
		})
	})
}

// kept reports whether a new file may stay because docs/sandbox.md permits it.
//   - A .git that must not be created is moved aside. It is deleted only if it was
//     born after the sandbox was planned. Scenarios: a command moves a directory of
//     the user to .git; a command moves a directory there that the command of
//     another sandbox, earlier or at the same time, has created.
//   - A command under a policy that may write all of t changes the placeholder of a
//     narrower sandbox, in which a file named gone is missing. Then it is no longer
//     a placeholder.
//   - fs/copy copies a directory in which the placeholder of a missing gone lies, to one that did not
//     exist before (seed 3616015528890).
func (w *world) kept(rel string, s state) bool {
	old := slices.ContainsFunc(slices.Collect(maps.Values(w.before)), func(b state) bool { return b.ino == s.ino && b.dev == s.dev })
	others := w.Runs > 1 || w.Inside != "" || w.Wide != nil
	if strings.HasPrefix(filepath.Base(rel), ".codex-removed-") {
		return old || others
	}
	_, before := w.before[filepath.Dir(rel)]
	copied := w.Requests > 0 && !before
	return (w.Wide != nil || copied) && s.mode&unix.S_IFMT == unix.S_IFREG && filepath.Base(rel) == "gone"
}

// placeholder reports whether a file of this mode can be a placeholder.
func placeholder(mode uint32) bool {
	return mode&unix.S_IFMT == unix.S_IFREG || mode&unix.S_IFMT == unix.S_IFDIR
}

// madeByBwrap reports whether bwrap itself has created a mount point: an empty directory or file
// that no process removes. This is a known weakness of bwrap, which works with paths
// (docs/security.md). No other backend has it.
//   - An unconfined process moves the directory of a placeholder away, or hides it
//     with a mount, when bwrap is about to mount on it: bwrap creates another one.
//   - An unconfined process exchanges a directory with a link when bwrap is about to
//     bind it: bwrap binds the target of the link, and creates the mount points of
//     the directory there. The second stage then refuses.
func (w *world) madeByBwrap(after map[string]state, rel string, oracles []*oracle) bool {
	if w.Backend != "bwrap" && w.Inside != "bwrap" || len(w.Mounts) == 0 && !w.swaps() {
		return false
	}
	for other := range after {
		if strings.HasPrefix(other, rel+"/") {
			return false
		}
	}
	full, link := filepath.Join(w.top, rel), filepath.Join(w.top, w.before[w.Swap+"/sl"].content)
	if filepath.IsAbs(w.before[w.Swap+"/sl"].content) {
		link = w.before[w.Swap+"/sl"].content
	}
	// A placeholder of the program has a special modification time (docs/sandbox.md).
	s := after[rel]
	made := s.mode == unix.S_IFDIR|0o755 || s.mode == unix.S_IFREG|0o444 && s.size == 0 && s.mtime.Sec != 3600
	return made && slices.ContainsFunc(oracles, func(o *oracle) bool {
		return slices.ContainsFunc(o.guards, func(g string) bool {
			below, found := strings.CutPrefix(g, filepath.Join(w.top, w.Swap, "sw"))
			return within(g, full) || w.swaps() && found && within(effective(link)+below, full) && full != effective(link)
		})
	})
}

// swaps reports whether a directory and a link are exchanged.
func (w *world) swaps() bool { return w.Swap != "" && !w.Still }

// leads reports whether an entry grants access at or below a path, so that the path's name is
// visible.
func (w *world) leads(rel string, oracles []*oracle) bool {
	at := filepath.Join(w.top, rel)
	return slices.ContainsFunc(oracles, func(o *oracle) bool {
		return slices.ContainsFunc(o.rules, func(r rule) bool { return within(r.path, at) })
	})
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
