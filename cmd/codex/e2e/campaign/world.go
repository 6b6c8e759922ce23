//go:build linux

package main

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

// state is what must stay as it was.
type state struct {
	dev, ino uint64
	mode     uint32
	uid, gid uint32
	size     int64
	mtime    unix.Timespec
	content  string // of regular files and links
}

// world is a scenario laid out on disk.
type world struct {
	*scenario
	top    string
	fd     int // top's; it holds even when what is above is renamed
	before map[string]state
	// listeners count who got through to a socket, by the path of its node.
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

// lay makes the tree of a scenario below top.
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
		// There is always somebody at the other end.
		f, err := os.OpenFile(at, os.O_RDWR|unix.O_NONBLOCK, 0)
		w.fifos[n.Path] = f
		return err
	default:
		// Paths of sockets are short.
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

// at is a path of a node that holds even when top is renamed.
func (w *world) at(rel string) string { return "/proc/self/fd/" + strconv.Itoa(w.fd) + "/" + rel }

// look is the state of a path; ok is false if there is nothing.
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

// changes tells what differs of what must not.
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

// breach is something that happened and must not have.
type breach struct{ Kind, Text string }

// judge compares what is there now, and what was said by those inside, with
// what the oracles of all policies that were in force allow.
func (w *world) judge(oracles []*oracle, said []string, o *outside) (found []breach) {
	bad := func(kind, format string, args ...any) {
		found = append(found, breach{kind, fmt.Sprintf(format, args...)})
	}
	// What patterns match is looked for when a sandbox starts; what commands
	// rename between two starts is no promise.
	globs := w.Runs == 1 && w.Inside == "" && w.Wide == nil && w.Requests == 0
	some := func(f func(o *oracle) bool) bool { return slices.ContainsFunc(oracles, f) }
	full := func(rel string) string { return filepath.Join(w.top, rel) }
	canWrite := func(rel string) bool {
		return some(func(o *oracle) bool { return o.canWrite(full(rel), globs) })
	}
	canMove := func(rel string) bool {
		return some(func(o *oracle) bool { return o.canMove(full(rel)) })
	}
	canRead := func(rel string) bool {
		return some(func(o *oracle) bool { return o.canRead(full(rel), globs) })
	}
	// Every name of a file counts: hard links that were made before stay usable.
	names := make(map[uint64][]string)
	for rel, s := range w.before {
		names[s.ino] = append(names[s.ino], rel)
	}
	anyName := func(rel string, f func(string) bool) bool { return slices.ContainsFunc(names[w.before[rel].ino], f) }

	// Scenario: t may be written, and t/sw/y is read-only or denied. While the unconfined
	// process has the link in the place of t/sw, a command moves or removes the link. For
	// the next sandbox there is nothing at t/sw/y: it gets a placeholder at t/sw, which the
	// unconfined process exchanges with the directory (seeds 900288 and 1300079). A mask
	// or read-only mount stays with that on which it was mounted (docs/sandbox.md).
	gone := func(rel string) bool {
		others := w.Runs > 1 || w.Inside != "" || w.Wide != nil || w.Requests > 0
		return w.swaps() && within(rel, w.Swap+"/sw") && others && o.disturbed.Load()
	}

	for i, n := range w.Nodes {
		if gone(n.Path) {
			continue
		}
		if n.Kind == "file" && !anyName(n.Path, canRead) {
			for _, line := range said {
				if strings.HasPrefix(line, "read "+w.canary(i)+" ") {
					bad("read", "%s was read by %s", n.Path, line[len("read "+w.canary(i)+" "):])
				}
			}
		}
		dir, base := filepath.Split(n.Path)
		if n.Kind != "dir" && n.Kind != "link" && base[0] != '.' && base != "HEAD" && base != "config" && base != "commondir" &&
			!anyName(n.Path, canRead) && !canRead(filepath.Clean(dir)) && !w.leads(n.Path, oracles) {
			for _, line := range said {
				if strings.HasPrefix(line, "listed "+base+" ") {
					bad("list", "%s was listed by %s", n.Path, line[len("listed "+base+" "):])
				}
			}
		}
	}
	after := w.snapshot()
	moved := make(map[uint64]state, len(after))
	for _, s := range after {
		moved[s.ino] = s
	}
	for _, rel := range sortedKeys(w.before) {
		old := w.before[rel]
		if rel == w.Swap+"/sl" || rel == w.Swap+"/sw" {
			continue // the unconfined process exchanges them
		}
		// A writable root that is behind the link when a sandbox starts is missing
		// there, and so has no names to keep; its contents count.
		swapped := w.swaps() && within(rel, w.Swap+"/sw")
		now, ok := after[rel]
		if !swapped && !canMove(rel) && (!ok || now.ino != old.ino) {
			bad("name", "%s is gone or something else", rel)
		}
		if now, ok := moved[old.ino]; ok && !gone(rel) && !anyName(rel, canWrite) {
			c := old.changes(now)
			// Placeholders for missing paths, and what is exchanged, change the
			// times of directories.
			holds := func(o *oracle) bool {
				return slices.ContainsFunc(o.guards, func(g string) bool { return g != full(rel) && within(g, full(rel)) })
			}
			made := func(name string) bool {
				_, old := w.before[name]
				return !old && filepath.Dir(name) == rel && w.madeByBwrap(after, name, oracles)
			}
			if old.mode&unix.S_IFMT == unix.S_IFDIR && (rel == w.Swap || some(holds) || slices.ContainsFunc(sortedKeys(after), made)) {
				c = slices.DeleteFunc(c, func(what string) bool { return what == "time" })
			}
			if len(c) > 0 {
				bad(strings.Join(c, "+"), "%s was changed", rel)
			}
		}
	}
	known := make(map[string]bool)
	for rel := range w.before {
		known[filepath.Base(rel)] = true
	}
	// Scenario: a file request copies a tree on which a file system is mounted at that
	// moment, and the file in it goes along (seed 900304).
	known[mountedName] = len(w.Mounts) > 0
	for _, rel := range sortedKeys(after) {
		if _, ok := w.before[rel]; ok || w.swaps() && (within(rel, w.Swap+"/sw") || within(rel, w.Swap+"/sl")) {
			continue
		}
		base := filepath.Base(rel)
		switch {
		case w.kept(rel, after[rel]):
		case w.madeByBwrap(after, rel, oracles):
		case !canWrite(rel):
			bad("created", "%s is new (%#o, %d bytes, of %d s)", rel, after[rel].mode, after[rel].size, after[rel].mtime.Sec)
		case !placeholder(after[rel].mode):
			// Scenario: the name gone may be written to, and a command puts a link there
			// (seed 1456591222916).
		case !strings.HasPrefix(base, ownPrefix) && !known[base] && !slices.Contains(metadata, base):
			bad("left", "%s is left over (%#o)", rel, after[rel].mode)
		}
	}
	for _, o := range oracles {
		for _, g := range o.guards {
			rel, err := filepath.Rel(w.top, g)
			if err != nil || strings.HasPrefix(rel, "..") {
				continue
			}
			if _, ok := w.before[rel]; ok || canWrite(rel) {
				continue
			}
			// Scenario: t and t/sw/y may be written, and the link leads to t. A command
			// makes t/y/.git, which it may, and where the link is t/sw/y/.git leads there
			// (seed 700117).
			if w.swaps() && within(rel, w.Swap+"/sw") {
				continue
			}
			if s, ok := w.look(rel); ok && after[rel].ino == 0 {
				bad("created", "%s is new (%#o)", rel, s.mode)
			}
		}
	}
	for rel, f := range w.fifos {
		buf := make([]byte, 64)
		if n, _ := unix.Read(int(f.Fd()), buf); n > 0 && !canWrite(rel) && !w.exposed(full(rel), oracles) {
			bad("fifo", "%s was written to", rel)
		}
	}
	for rel, l := range w.listeners {
		// Landlock knows no right to connect.
		if l.accepted.Load() > 0 && (!w.Network || w.Backend != "landlock" && !canRead(rel)) {
			bad("socket", "%s was connected to", rel)
		}
	}
	if !w.Network && w.tcp.accepted.Load() > 0 {
		bad("network", "a connection by TCP")
	}
	if !w.Network && w.abstract.accepted.Load() > 0 {
		bad("network", "a connection to an abstract socket")
	}
	return append(found, o.judge(canWrite, oracles)...)
}

// exposed reports whether a FIFO can be written to as docs/security.md says: it lies in
// a read-only path of a writable root, and is not masked. Scenario: t may be written,
// t/c is read-only, and t/c/a/p22 is a FIFO. A read-only mount does not stop writes to
// it, and Landlock grants all of t (seed 1200359). The landlock backend has no mounts,
// and refuses such policies.
func (w *world) exposed(fifo string, oracles []*oracle) bool {
	mounts := w.Backend != "landlock" || w.Inside != "" && w.Inside != "landlock"
	return mounts && slices.ContainsFunc(oracles, func(o *oracle) bool {
		return o.canRead(fifo, true) && slices.ContainsFunc(o.rules, func(r rule) bool {
			return within(fifo, r.path) && r.path != fifo && o.access(r.path) == write
		})
	})
}

// kept reports whether something is left as docs/sandbox.md says.
//   - A .git that must not be created is moved aside, and deleted only if it was
//     born after the sandbox was planned. Scenarios: a command moves a directory of
//     the user there; it moves one there that the command of an earlier sandbox, or
//     of another one at work, has made.
//   - A command under a policy that may write all of t changes the placeholder of a
//     narrower sandbox, for which a file named gone is missing. It is no placeholder
//     any more.
func (w *world) kept(rel string, s state) bool {
	old := slices.ContainsFunc(slices.Collect(maps.Values(w.before)), func(b state) bool { return b.ino == s.ino && b.dev == s.dev })
	others := w.Runs > 1 || w.Inside != "" || w.Wide != nil
	if strings.HasPrefix(filepath.Base(rel), ".codex-removed-") {
		return old || others
	}
	return w.Wide != nil && s.mode&unix.S_IFMT == unix.S_IFREG && filepath.Base(rel) == "gone"
}

// placeholder reports whether something of this kind can be a placeholder.
func placeholder(mode uint32) bool {
	return mode&unix.S_IFMT == unix.S_IFREG || mode&unix.S_IFMT == unix.S_IFDIR
}

// madeByBwrap reports whether bwrap has made a mount point itself: an empty
// directory or file. Nobody knows of it then, and it stays. That is a known weakness
// of bwrap, which works with paths (docs/security.md), and no other backend has it.
//   - An unconfined process moves the directory of a placeholder away, or hides it
//     with a mount, when bwrap is about to mount on it: bwrap makes another one.
//   - An unconfined process exchanges a directory with a link when bwrap is about to
//     bind it: bwrap binds what the link leads to, and makes the mount points that
//     belong into the directory there. The second stage then refuses.
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
	// A placeholder of the program has a time of its own (docs/sandbox.md).
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

// leads reports whether an entry grants something at or below a path, so that
// its name is seen.
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
