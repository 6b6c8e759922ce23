package remote

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/fileop/archive"
	"codex.internal/pkg/host/terminal"
)

// syncing is one sync.
type syncing struct {
	*copying
	out io.Writer

	removes, force, checksums, git, dry, follows, verbose bool

	count syncCount // what carry has done

	began *bool // true when the first round of a watch is complete
	most  int   // the largest number of entries of a list

	ignored *ignored // with git: the rules of the last complete list of the source
	some    bool     // only changed paths are copied now
	again   bool     // in the last round of this kind an entry was missing; needs mu
}

// listed is a list of a tree.
type listed struct {
	entries []*archive.Entry // in the order of the tree, without omitted entries
	at      map[string]*archive.Entry
	// problems are the errors of paths that could not be read.
	problems map[string]error
}

// look lists a tree, or some of its paths. With report it prints the problems.
func (y *syncing) look(t tree, paths []string, report bool) (*listed, error) {
	l := &listed{at: make(map[string]*archive.Entry), problems: make(map[string]error)}
	left, names := y.most, 0
	err := t.list(listOptions{y.checksums, paths}, func(e *archive.Entry) {
		names += len(e.Path) + len(e.Target) + len(e.Text)
		if left--; left < 0 || names > maxListedNames {
			return // the other problems are only counted
		}
		if e.Type == archive.Problem {
			why := errors.New(strings.ToValidUTF8(e.Text, "\uFFFD"))
			l.problems[e.Path] = why
			if report {
				y.report(t.shown(e.Path), why)
			}
			return
		}
		l.entries = append(l.entries, e)
		l.at[e.Path] = e
	})
	if err == nil && (left < 0 || names > maxListedNames) {
		err = fmt.Errorf("it has more than %d entries, or names of more than %d MiB; synchronize its directories one by one, or use codex remote cp -rp",
			y.most, maxListedNames>>20)
	}
	return l, err
}

// without removes the entries that git ignores.
func (l *listed) without(g *ignored) {
	kept, skip := l.entries[:0], "\x00"
	for _, e := range l.entries {
		if strings.HasPrefix(e.Path, skip) || e.Path != "." && g.leavesOut(e.Path, e.Type == archive.Directory) {
			delete(l.at, e.Path)
			if !strings.HasPrefix(e.Path, skip) && e.Type == archive.Directory {
				skip = e.Path + "/"
			}
			continue
		}
		kept = append(kept, e)
	}
	l.entries = kept
}

// rules parses the .gitignore files of a tree.
func (y *syncing) rules(t tree, l *listed) (*ignored, error) {
	g := &ignored{}
	for _, e := range l.entries {
		if path.Base(e.Path) != ignoreFile || e.Type != archive.Listed {
			continue
		}
		if e.Size > maxIgnoreFile {
			return nil, fmt.Errorf("%s: %w", t.shown(e.Path), errIgnoreFile)
		}
		text, err := t.read(e.Path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.shown(e.Path), withoutPath(err))
		}
		folder := path.Dir(e.Path)
		if folder == "." {
			folder = ""
		}
		g.add(folder, text)
	}
	return g, nil
}

// bring makes a tree equal to another tree.
func (y *syncing) bring(from, to tree) error {
	source, err := y.look(from, nil, true)
	if err != nil {
		return fmt.Errorf("list %s: %w", from.shown("."), withoutPath(err))
	}
	target, err := y.look(to, nil, false)
	if err != nil {
		return fmt.Errorf("list %s: %w", to.shown("."), withoutPath(err))
	}
	if y.git {
		if y.ignored, err = y.rules(from, source); err != nil {
			return err
		}
		source.without(y.ignored)
		target.without(y.ignored)
	}
	if err := y.compareContents(from, to, source, target); err != nil {
		return err
	}
	return y.carry(from, to, source, target, y.doomed(source, target))
}

// compareContents adds checksums to files that may be equal though their times differ, because the file system of the
// target cannot store the time of the source. Without it, each sync would copy these files again.
func (y *syncing) compareContents(from, to tree, source, target *listed) error {
	if y.checksums {
		return nil
	}
	var paths []string
	for _, e := range source.entries {
		there := target.at[e.Path]
		if e.Type == archive.Listed && utf8.ValidString(e.Path) && there != nil && there.Type == e.Type && there.Size == e.Size && approximates(there.Modified, e.Modified) {
			paths = append(paths, e.Path)
		}
	}
	for some := range slices.Chunk(paths, syncPaths) {
		for _, side := range []struct {
			tree tree
			list *listed
		}{{from, source}, {to, target}} {
			err := side.tree.list(listOptions{true, some}, func(e *archive.Entry) {
				if there := side.list.at[e.Path]; there != nil && e.Type == archive.Listed && e.Size == there.Size {
					there.Sum = e.Sum
				}
			})
			if err != nil {
				return fmt.Errorf("list %s: %w", side.tree.shown("."), withoutPath(err))
			}
		}
	}
	return nil
}

// approximates reports whether a file system may have stored a time as another one: FAT stores times in units of two
// seconds and ext3 in seconds, and only the years from 1980 to 2037 fit into every file system.
func approximates(stored, exact time.Time) bool {
	if sameTime(stored, exact) {
		return false
	}
	distance := stored.Sub(exact).Abs()
	return distance < 2*time.Second+time.Millisecond || exact.Year() < 1980 || exact.Year() > 2037
}

// sameTime compares times in microseconds, because some systems store no more.
func sameTime(a, b time.Time) bool {
	return a.Truncate(time.Microsecond).Equal(b.Truncate(time.Microsecond))
}

// wholeFolders reports whether a directory may be removed together with all its contents, because
// no entries are left out.
func (y *syncing) wholeFolders() bool { return !y.git && len(y.options.patterns) == 0 }

// defers reports whether the report of an error must wait, because a changed path may be removed
// before it is copied. The next round compares both trees and prints the remaining errors.
func (y *syncing) defers(err error) bool {
	y.again = y.again || y.some && isMissing(err)
	return y.some && isMissing(err)
}

// carry removes and copies the differences of two lists.
func (y *syncing) carry(from, to tree, source, target *listed, doomed []*archive.Entry) error {
	changed := y.changed(source, target, doomed)
	if y.dry {
		y.printPlan(y.out, from, to, changed, doomed)
		return nil
	}
	if y.verbose {
		y.printPlan(y.errs, from, to, changed, doomed)
	}
	y.count.removed += len(doomed)
	to.unlock(locked(target, doomed))
	to.remove(doomed, y.wholeFolders())
	if len(changed) == 0 || y.fatal() != nil {
		return nil
	}
	paths, files, bytes := make([]string, len(changed)), 0, int64(0)
	for i, e := range changed {
		paths[i] = e.Path
		if e.Type == archive.Listed {
			files++
			bytes += e.Size
		}
	}
	y.bar.expect(files, bytes)
	y.count.changed, y.count.files, y.count.bytes = y.count.changed+len(changed), y.count.files+files, y.count.bytes+bytes
	return to.take(from, paths)
}

// syncCount counts what was changed in the target.
type syncCount struct {
	changed        int // entries: files, directories and links
	files, removed int
	bytes          int64
}

// summary returns the last line of a synchronization.
func (n syncCount) summary() string {
	plural := "s"
	if n.files == 1 {
		plural = ""
	}
	switch {
	case n.changed == 0 && n.removed == 0:
		return "nothing has changed"
	case n.removed == 0:
		return fmt.Sprintf("%d file%s copied, %s", n.files, plural, bytesText(float64(n.bytes)))
	default:
		return fmt.Sprintf("%d file%s copied, %s; %d removed", n.files, plural, bytesText(float64(n.bytes)), n.removed)
	}
}

// doomed returns the entries of the target that the source does not have, or has as another
// type.
func (y *syncing) doomed(source, target *listed) []*archive.Entry {
	if !y.removes {
		return nil
	}
	if len(source.problems) > 0 {
		y.bar.interrupt()
		fmt.Fprintln(y.errs, "codex: nothing is removed, because a part of the source could not be read")
		return nil
	}
	var list []*archive.Entry
	for _, e := range target.entries {
		if there := source.at[e.Path]; there == nil || there.Type != e.Type {
			list = append(list, e)
		}
	}
	return list
}

// locked returns the directories of a tree from which the user cannot remove the doomed entries, because their
// permissions do not allow it even to their owner. Go's module cache has such directories. They are copied again
// afterwards, with their permissions.
func locked(target *listed, doomed []*archive.Entry) []*archive.Entry {
	var list []*archive.Entry
	seen := make(map[string]bool)
	for _, e := range doomed {
		for _, name := range []string{path.Dir(e.Path), e.Path} {
			d := target.at[name]
			if d != nil && d.Type == archive.Directory && d.Perm&0o700 != 0o700 && !seen[name] {
				seen[name] = true
				list = append(list, d)
			}
		}
	}
	return list
}

// changed returns the entries of the source that the target does not have or that differ, in
// the order of the source. They include directories in which something changes, because their
// times change.
func (y *syncing) changed(source, target *listed, doomed []*archive.Entry) []*archive.Entry {
	touched := make(map[string]bool)
	for _, e := range doomed {
		touched[path.Dir(e.Path)] = true
	}
	differs := make(map[string]bool)
	for _, e := range source.entries {
		if !y.same(e, target.at[e.Path]) {
			differs[e.Path] = true
			if e.Path != "." {
				touched[path.Dir(e.Path)] = true
			}
		}
	}
	var list []*archive.Entry
	for _, e := range source.entries {
		if differs[e.Path] || e.Type == archive.Directory && touched[e.Path] {
			list = append(list, e)
		}
	}
	return list
}

// same reports whether an entry of the target equals one of the source. there is nil if the target
// has no such entry.
func (y *syncing) same(e, there *archive.Entry) bool {
	keepsPermissions := permissionsOf(0) != nil // false on Windows
	if there == nil || there.Type != e.Type || keepsPermissions && e.Type != archive.Link && e.Perm != there.Perm {
		return false
	}
	switch {
	case e.Type == archive.Link:
		return e.Target == there.Target
	case e.Type == archive.Directory:
		return sameTime(e.Modified, there.Modified)
	case y.checksums:
		return e.Size == there.Size && e.Sum == there.Sum
	}
	sameContents := e.Sum != "" && e.Sum == there.Sum // of files that compareContents has compared
	return e.Size == there.Size && (sameContents || sameTime(e.Modified, there.Modified))
}

// printPlan prints changes. On a terminal, names have no control characters.
func (y *syncing) printPlan(out io.Writer, from, to tree, changed, doomed []*archive.Entry) {
	show := func(name string) string { return name }
	if cmdutil.IsTerminal(out) {
		show = terminal.Text
	}
	for _, e := range doomed {
		fmt.Fprintf(out, "remove %s\n", show(to.shown(e.Path)))
	}
	for _, e := range changed {
		if e.Type != archive.Directory {
			fmt.Fprintf(out, "copy %s\n", show(from.shown(e.Path)))
		}
	}
}
