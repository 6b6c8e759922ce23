package campaign

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// breach is an effect that the policy forbids.
type breach struct{ Kind, Text string }

// judge compares the current state, and the reports of the probes, with the effects that the
// oracles of all enforced policies allow.
func (w *world) judge(oracles []*oracle, said []string, o *outside) []breach {
	j := &judgement{
		world: w, oracles: oracles, outside: o, after: w.snapshot(), names: make(map[uint64][]string),
		// A sandbox expands patterns when it starts. There is no promise for files that commands
		// rename between two starts.
		globs: w.Runs == 1 && w.Inside == "" && w.Wide == nil && w.Requests == 0,
	}
	for rel, s := range w.before {
		j.names[s.ino] = append(j.names[s.ino], rel)
	}
	j.seen(said)
	j.changed()
	j.created()
	j.guarded()
	j.reached()
	return append(j.found, o.judge(j.canWrite, oracles)...)
}

// judgement is the data of judge, with the breaches that it has found.
type judgement struct {
	*world
	oracles []*oracle
	outside *outside
	after   map[string]state
	names   map[uint64][]string // the names before the run, by inode: existing hard links stay usable
	globs   bool                // patterns are taken into account
	found   []breach
}

func (j *judgement) bad(kind, format string, args ...any) {
	j.found = append(j.found, breach{kind, fmt.Sprintf(format, args...)})
}

func (j *judgement) full(rel string) string { return filepath.Join(j.top, rel) }

func (j *judgement) some(f func(o *oracle) bool) bool { return slices.ContainsFunc(j.oracles, f) }

func (j *judgement) canWrite(rel string) bool {
	return j.some(func(o *oracle) bool { return o.canWrite(j.full(rel), j.globs) })
}

func (j *judgement) canMove(rel string) bool {
	return j.some(func(o *oracle) bool { return o.canMove(j.full(rel)) })
}

func (j *judgement) canRead(rel string) bool {
	return j.some(func(o *oracle) bool { return o.canRead(j.full(rel), j.globs) })
}

// anyName reports whether f is true for any name that a file had before.
func (j *judgement) anyName(rel string, f func(string) bool) bool {
	return slices.ContainsFunc(j.names[j.before[rel].ino], f)
}

// gone reports whether the mask of a path may have been lost together with the file on which it was
// mounted.
//
// Scenario: t may be written, and t/sw/y is read-only or denied. The unconfined process has exchanged t/sw
// and the link, and a command moves or removes the link. For the next sandbox t/sw/y does not exist, so it
// gets a placeholder at t/sw, and the unconfined process exchanges that with the directory (seeds 900288
// and 1300079). A mask or read-only mount stays with the file on which it was mounted (docs/sandbox.md).
func (j *judgement) gone(rel string) bool {
	others := j.Runs > 1 || j.Inside != "" || j.Wide != nil || j.Requests > 0
	return j.swaps() && within(rel, j.Swap+"/sw") && others && j.outside.disturbed.Load()
}

// seen checks the files that were read and the names that were listed.
func (j *judgement) seen(said []string) {
	for i, n := range j.Nodes {
		if j.gone(n.Path) {
			continue
		}
		if n.Kind == "file" && !j.anyName(n.Path, j.canRead) {
			for _, line := range said {
				if strings.HasPrefix(line, "read "+j.canary(i)+" ") {
					j.bad("read", "%s was read by %s", n.Path, line[len("read "+j.canary(i)+" "):])
				}
			}
		}
		dir, base := filepath.Split(n.Path)
		if n.Kind != "dir" && n.Kind != "link" && base[0] != '.' && base != "HEAD" && base != "config" && base != "commondir" &&
			!j.anyName(n.Path, j.canRead) && !j.canRead(filepath.Clean(dir)) && !j.leads(n.Path, j.oracles) {
			for _, line := range said {
				if strings.HasPrefix(line, "listed "+base+" ") {
					j.bad("list", "%s was listed by %s", n.Path, line[len("listed "+base+" "):])
				}
			}
		}
	}
}

// changed checks that no file that existed before was removed or changed.
func (j *judgement) changed() {
	moved := make(map[uint64]state, len(j.after))
	for _, s := range j.after {
		moved[s.ino] = s
	}
	for _, rel := range sortedKeys(j.before) {
		old := j.before[rel]
		if rel == j.Swap+"/sl" || rel == j.Swap+"/sw" {
			continue // the unconfined process exchanges them
		}
		// If a writable root is behind the link when a sandbox starts, it is missing at its own
		// path, and so has no names to protect. Its contents are still checked.
		swapped := j.swaps() && within(rel, j.Swap+"/sw")
		now, ok := j.after[rel]
		if !swapped && !j.canMove(rel) && (!ok || now.ino != old.ino) {
			j.bad("name", "%s is gone or something else", rel)
		}
		if now, ok := moved[old.ino]; ok && !j.gone(rel) && !j.anyName(rel, j.canWrite) {
			if c := j.changes(rel, old, now); len(c) > 0 {
				j.bad(strings.Join(c, "+"), "%s was changed", rel)
			}
		}
	}
}

// changes returns the differences of a path, except those that sandboxes themselves cause.
func (j *judgement) changes(rel string, old, now state) []string {
	c := old.changes(now)
	// Placeholders for missing paths, and exchanged names, change the times of
	// directories.
	holds := func(o *oracle) bool {
		return slices.ContainsFunc(o.guards, func(g string) bool { return g != j.full(rel) && within(g, j.full(rel)) })
	}
	made := func(name string) bool {
		_, old := j.before[name]
		return !old && filepath.Dir(name) == rel && j.madeByBwrap(j.after, name, j.oracles)
	}
	if old.mode&unix.S_IFMT == unix.S_IFDIR && (rel == j.Swap || j.some(holds) || slices.ContainsFunc(sortedKeys(j.after), made)) {
		c = slices.DeleteFunc(c, func(what string) bool { return what == "time" })
	}
	return c
}

// created checks new files.
func (j *judgement) created() {
	known := make(map[string]bool)
	for rel := range j.before {
		known[filepath.Base(rel)] = true
	}
	// Scenario: a file request copies a tree while a file system is mounted on it, and so also
	// copies the file in that file system (seed 900304).
	known[mountedName] = len(j.Mounts) > 0
	for _, rel := range sortedKeys(j.after) {
		if _, ok := j.before[rel]; ok || j.swaps() && (within(rel, j.Swap+"/sw") || within(rel, j.Swap+"/sl")) {
			continue
		}
		base, s := filepath.Base(rel), j.after[rel]
		switch {
		case j.kept(rel, s):
		case j.madeByBwrap(j.after, rel, j.oracles):
		case !j.canWrite(rel):
			j.bad("created", "%s is new (%#o, %d bytes, of %d s)", rel, s.mode, s.size, s.mtime.Sec)
		case !placeholder(s.mode):
			// Scenario: the name gone may be written to, and a command puts a link there
			// (seed 1456591222916).
		case !strings.HasPrefix(base, ownPrefix) && !known[base] && !slices.Contains(metadata, base):
			j.bad("left", "%s is left over (%#o)", rel, s.mode)
		}
	}
}

// guarded checks paths that must stay missing and that the snapshot does not contain.
func (j *judgement) guarded() {
	for _, o := range j.oracles {
		for _, g := range o.guards {
			rel, err := filepath.Rel(j.top, g)
			if err != nil || strings.HasPrefix(rel, "..") {
				continue
			}
			if _, ok := j.before[rel]; ok || j.canWrite(rel) {
				continue
			}
			// Scenario: t and t/sw/y may be written, and the link leads to t. A command
			// makes t/y/.git, as permitted. While the link is at t/sw, the path
			// t/sw/y/.git leads there (seed 700117).
			if j.swaps() && within(rel, j.Swap+"/sw") {
				continue
			}
			if s, ok := j.look(rel); ok && j.after[rel].ino == 0 {
				j.bad("created", "%s is new (%#o)", rel, s.mode)
			}
		}
	}
}

// reached checks the data that FIFOs, sockets and the network have received.
func (j *judgement) reached() {
	for rel, f := range j.fifos {
		buf := make([]byte, 64)
		if n, _ := unix.Read(int(f.Fd()), buf); n > 0 && !j.canWrite(rel) && !j.exposed(j.full(rel), j.oracles) {
			j.bad("fifo", "%s was written to", rel)
		}
	}
	for rel, l := range j.listeners {
		// Landlock has no right that restricts connections to these sockets.
		if l.accepted.Load() > 0 && (!j.Network || j.Backend != "landlock" && !j.canRead(rel)) {
			j.bad("socket", "%s was connected to", rel)
		}
	}
	if !j.Network && j.tcp.accepted.Load() > 0 {
		j.bad("network", "a connection by TCP")
	}
	if !j.Network && j.abstract.accepted.Load() > 0 {
		j.bad("network", "a connection to an abstract socket")
	}
}
