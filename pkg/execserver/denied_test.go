package execserver

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"codex.internal/pkg/sandbox/permissions"
	"golang.org/x/sys/unix"
)

// TestReadsAllBut: helpers that were started ahead serve policies that deny nothing but what
// the server hides, and single paths, by the identities of those.
func TestReadsAllBut(t *testing.T) {
	hidden, other := t.TempDir(), t.TempDir()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := permissions.Entry{Path: permissions.Path{Kind: permissions.Root}, Access: permissions.Read}
	deny := func(path string) permissions.Entry {
		return permissions.Entry{Path: permissions.Path{Kind: permissions.Literal, Text: path}, Access: permissions.Deny}
	}
	tmp := permissions.Entry{Path: permissions.Path{Kind: permissions.SlashTmp}, Access: permissions.Write}
	minimal := permissions.Entry{Path: permissions.Path{Kind: permissions.Minimal}, Access: permissions.Read}
	grant := func(path string) permissions.Entry { e := deny(path); e.Access = permissions.Read; return e }
	denied := filepath.Join(dir, "above", "denied")
	for _, err := range []error{
		os.MkdirAll(denied, 0o755), os.Symlink(denied, dir+"/link"), os.Symlink(dir+"/above", dir+"/linked"), os.Mkdir(dir+"/denied2", 0o755),
		os.Symlink(dir+"/denied2", dir+"/link2"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	glob := permissions.Entry{Path: permissions.Path{Kind: permissions.Glob, Text: hidden}, Access: permissions.Deny}
	own := []string{hidden, "/no/such/file"}
	for _, c := range []struct {
		name    string
		entries []permissions.Entry
		want    bool
	}{
		{"everything", []permissions.Entry{root}, true},
		{"all but what is hidden", []permissions.Entry{root, deny(hidden)}, true},
		{"nothing", nil, false},
		{"only a denial", []permissions.Entry{deny(hidden)}, false},
		{"the client denies more", []permissions.Entry{root, deny(hidden), deny(denied)}, true},
		{"and lets other paths be used", []permissions.Entry{root, deny(denied), grant(dir), grant(dir + "/denied2"), grant("/no/such/file")}, true},
		{"and lets paths be used by links", []permissions.Entry{root, deny(denied), grant(dir + "/link2/in")}, false},
		{"and more paths", append([]permissions.Entry{root}, slices.Repeat([]permissions.Entry{deny(denied)}, maxDenied+1)...), false},
		{"and lets more be used", append([]permissions.Entry{root, deny(denied)}, slices.Repeat([]permissions.Entry{grant(dir)}, maxGranted+1)...), false},
		{"and lets what is deep be used", []permissions.Entry{root, deny(denied), grant(dir + strings.Repeat("/x", maxDepth))}, false},
		{"and lets a part of it be read", []permissions.Entry{root, deny(denied), grant(denied + "/in")}, false},
		{"and lets it be read too", []permissions.Entry{root, grant(denied), deny(denied)}, false},
		{"and lets a part of it be read by a link", []permissions.Entry{root, deny(denied), grant(dir + "/link/in")}, false},
		{"and lets something unknown be read", []permissions.Entry{root, deny(denied), minimal}, false},
		{"what the client denies is above /tmp", []permissions.Entry{root, deny("/"), tmp}, false},
		{"what the client denies is a link", []permissions.Entry{root, deny(dir + "/link")}, false},
		{"what the client denies is below a link", []permissions.Entry{root, deny(dir + "/linked/denied")}, false},
		{"what the client denies is not there", []permissions.Entry{root, deny(denied + "2")}, false},
		{"a pattern", []permissions.Entry{root, glob}, false},
		{"what is hidden is not there", []permissions.Entry{root, deny("/no/such/file")}, false},
	} {
		p := permissions.Profile{Kind: permissions.Managed, FileSystem: permissions.FileSystem{Entries: c.entries}}
		if _, got := readsAllButAt(&p, own, quietly(dir), time.Now().Add(time.Hour)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	p := permissions.Profile{Kind: permissions.Managed, FileSystem: permissions.FileSystem{Entries: []permissions.Entry{root, deny(hidden)}}}
	before, _ := readsAllButAt(&p, own, quietly(dir), time.Now().Add(time.Hour))
	if err := os.Rename(hidden, hidden+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, hidden); err != nil {
		t.Fatal(err)
	}
	if after, reads := readsAllButAt(&p, own, quietly(dir), time.Now().Add(time.Hour)); !reads || after == before {
		t.Errorf("%q for what was %q before it was replaced", after, before)
	}
}

// allBut is a profile that lets everything be read but a path.
func allBut(denied string) permissions.Profile {
	return permissions.Profile{Kind: permissions.Managed, FileSystem: permissions.FileSystem{Entries: []permissions.Entry{
		{Path: permissions.Path{Kind: permissions.Root}, Access: permissions.Read},
		{Path: permissions.Path{Kind: permissions.Literal, Text: denied}, Access: permissions.Deny},
	}}}
}

// TestDeniedIdentity: whatever is renamed at or above a denied path, and even if it is renamed back, its
// identity is another one, or none as long as the last change is not settled.
func TestDeniedIdentity(t *testing.T) {
	for _, own := range []bool{false, true} {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		above, denied := dir+"/above", dir+"/above/denied"
		if err := errors.Join(os.MkdirAll(denied, 0o755), os.Mkdir(dir+"/above/other", 0o755)); err != nil {
			t.Fatal(err)
		}
		p := allBut(denied)
		var ours []string
		if own {
			ours = []string{denied}
		}
		there := func(path string) func() error {
			return func() error { return errors.Join(os.Rename(path, path+".away"), os.Rename(path+".away", path)) }
		}
		seen := make(map[string]string)
		for _, change := range []struct {
			name string
			make func() error
		}{
			{"nothing", func() error { return nil }},
			{"renamed and back", there(denied)},
			{"the directory above renamed and back", there(above)},
			{"replaced", func() error { return errors.Join(os.Rename(denied, denied+"2"), os.Rename(above+"/other", denied)) }},
			{"a file in it", func() error { return os.WriteFile(denied+"/file", nil, 0o600) }},
		} {
			if err := change.make(); err != nil {
				t.Fatal(err)
			}
			for _, at := range []time.Time{time.Now(), time.Now().Add(settledTime / 2)} {
				if _, reads := readsAllButAt(&p, ours, quietly(dir), at); reads != own {
					t.Errorf("%s: %v at %v", change.name, reads, at)
				}
			}
			time.Sleep(clockStep)
			id, reads := readsAllButAt(&p, ours, quietly(dir), time.Now().Add(time.Hour))
			if before, known := seen[id]; !reads || known {
				t.Errorf("%s: %v, as after %q", change.name, reads, before)
			}
			seen[id] = change.name
		}
		// A link may lead elsewhere at the start of a helper.
		if err := errors.Join(os.Rename(above, dir+"/moved"), os.Symlink(dir+"/moved", above)); err != nil {
			t.Fatal(err)
		}
		if _, reads := readsAllButAt(&p, ours, quietly(dir), time.Now().Add(time.Hour)); reads {
			t.Error("a link above it is taken")
		}
	}
}

// TestIdentityOfWrittenFile: what the server writes into a file of its own does not change the identity, as it does with the
// audit trail for each request; another file in its place does.
func TestIdentityOfWrittenFile(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	own := dir + "/own"
	if err := os.WriteFile(own, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := allBut(own)
	before := ""
	for _, change := range []struct {
		name string
		make func() error
		same bool
	}{
		{"nothing", func() error { return nil }, false},
		{"a line", func() error { return os.WriteFile(own, []byte("line\n"), 0o600) }, true},
		{"renamed and back", func() error { return errors.Join(os.Rename(own, own+"2"), os.Rename(own+"2", own)) }, false},
		{"another mode", func() error { return os.Chmod(own, 0o644) }, true},
		{"replaced", func() error { return errors.Join(os.WriteFile(own+"2", nil, 0o600), os.Rename(own+"2", own)) }, false},
	} {
		time.Sleep(clockStep)
		if err := change.make(); err != nil {
			t.Fatal(err)
		}
		id, reads := readsAllButAt(&p, []string{own}, quietly(dir), time.Now())
		if !reads || (id == before) != change.same {
			t.Errorf("%s: %v, the same: %v", change.name, reads, id == before)
		}
		before = id
	}
}

// clockStep is longer than the steps of the kernel's clock for files, which no other clock replaces.
const clockStep = 25 * time.Millisecond

// quietly is a disk on which nothing outside of a directory seems to change: other tests use the
// directories above it.
func quietly(dir string) disk {
	return disk{func(path string, st *unix.Stat_t) error {
		err := unix.Lstat(path, st)
		if !isBelow(path, dir) {
			st.Ctim = unix.Timespec{}
		}
		return err
	}, func(string) bool { return true }, func(string) bool { return true }}
}

// TestSilentFileSystem: where a file system may not tell of changes, no helper is started ahead.
func TestSilentFileSystem(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := allBut(dir)
	for _, tells := range []bool{true, false} {
		disk := quietly(dir)
		disk.tellsChanges = func(string) bool { return tells }
		if _, reads := readsAllButAt(&p, nil, disk, time.Now().Add(time.Hour)); reads != tells {
			t.Errorf("%v, want %v", reads, tells)
		}
	}
	if tellsChanges("/proc") {
		t.Error("/proc tells of its changes")
	}
}

// TestIdentityInSharedDirectory: what others make in /tmp does not change the identity of what the server hides below it, and
// every renaming does. Scenario: the server's home is below /tmp, where each command with workspace-write has placeholders.
func TestIdentityInSharedDirectory(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	shared, inner := dir+"/shared", dir+"/shared/inner"
	home := inner + "/home"
	own := home + "/own"
	if err := errors.Join(os.MkdirAll(own, 0o755), os.Chmod(shared, 0o777|os.ModeSticky), os.Chmod(inner, 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	p := allBut(own)
	there := func(path string) func() error {
		return func() error { return errors.Join(os.Rename(path, dir+"/away"), os.Rename(dir+"/away", path)) }
	}
	exchange := func(path, with string) func() error {
		return func() error {
			return errors.Join(os.Mkdir(with, 0o755), unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, with, unix.RENAME_EXCHANGE),
				unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, with, unix.RENAME_EXCHANGE), os.Remove(with))
		}
	}
	file := func(name string) func() error { return func() error { return os.WriteFile(name, nil, 0o600) } }
	if tellsRenamings("/proc") {
		t.Error("/proc tells of renamings")
	}
	for _, tells := range []bool{true, false} {
		if tells && !tellsRenamings(shared) {
			continue // nothing is left out on this file system
		}
		disk := quietly(dir)
		disk.tellsRenamings = func(string) bool { return tells }
		before := ""
		for i, change := range []struct {
			name string
			make func() error
			same bool
		}{
			{"nothing", func() error { return nil }, false},
			{"a file beside all", file(shared + "/beside"), tells},
			{"another", file(shared + "/beside2"), tells},
			{"a file in a shared directory in a shared one", file(inner + "/beside"), false},
			{"the home renamed and back", there(home), false},
			{"the inner directory renamed and back", there(inner), false},
			{"the home exchanged and back", exchange(home, inner+"/decoy"), false},
			{"the inner directory exchanged and back", exchange(inner, shared+"/decoy"), false},
			{"the shared directory renamed and back", there(shared), false},
			{"nothing again", func() error { return nil }, true},
			{"a file at the end", file(shared + "/end"), tells},
		} {
			time.Sleep(clockStep)
			if err := change.make(); err != nil {
				t.Fatal(err)
			}
			id, reads := readsAllButAt(&p, []string{own}, disk, time.Now())
			if !reads || (id == before) != change.same {
				t.Errorf("tells %v, %d, %s: %v, the same: %v", tells, i, change.name, reads, id == before)
			}
			before = id
		}
		for _, name := range []string{"/beside", "/beside2", "/inner/beside", "/end"} {
			if err := os.Remove(shared + name); err != nil {
				t.Fatal(err)
			}
		}
	}
}
