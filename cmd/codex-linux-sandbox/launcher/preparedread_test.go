package launcher

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/pkg/sandbox"
)

// toRead are the arguments of a file request that changes nothing, with a profile.
func toRead(profile string) []string {
	return []string{"--reading", "--trusted-helper", "--permission-profile", profile, "--sandbox-policy-cwd", "/"}
}

// TestPreparedToRead: a sandbox that was made ahead for file requests takes the masks of the request's policy, and shows what
// one made for the request would show.
func TestPreparedToRead(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"/hidden", "/open", "/d1", "/d2", "/d3", "/up/in"} {
		if err := os.MkdirAll(dir+sub, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, dir+sub+"/secret", "secret")
	}
	for _, name := range []string{"/secret", "/empty", "/f1", "/f2", "/f3"} {
		write(t, dir+name, strings.TrimPrefix(name, "/empty"))
	}
	if err := os.Symlink(dir+"/hidden", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	deny := func(names ...string) (entries []string) {
		for _, name := range names {
			entries = append(entries, dir+name+"=deny")
		}
		return entries
	}
	for _, tt := range []struct {
		name    string
		entries []string
		used    bool
	}{
		{"nothing is denied", nil, true},
		{"the same is denied", deny("/hidden"), true},
		{"a directory", deny("/hidden", "/d1"), true},
		{"files", deny("/hidden", "/secret", "/empty"), true},
		{"as many as there are masks", deny("/hidden", "/d1", "/d2", "/d3", "/f1", "/f2", "/f3"), true},
		{"more directories", deny("/hidden", "/d1", "/d2", "/d3", "/open"), false},
		{"more files", deny("/hidden", "/secret", "/f1", "/f2", "/f3"), false},
		{"what is denied already, by a link", deny("/link"), true},
		{"a directory in another", deny("/hidden", "/up", "/up/in"), true},
		{"a missing file", deny("/hidden", "/missing"), true},
		{"what holds another mask", deny("/hidden", ""), false},
		{"a part is not denied", append(deny("/hidden", "/up"), dir+"/up/in=read"), false},
		{"what was denied is not", append(deny("/hidden"), dir+"/hidden/secret=read"), false},
		{"what can be written", append(deny("/hidden"), dir+"/open=write", dir+"/none=write"), true},
		{"the view's own /dev", append(deny("/hidden"), "/dev/zero=deny"), false},
	} {
		// The processes are counted without a pipe: the shell may start ls before or after what reads its output.
		const look = "ls -Rl --time-style=+ . 2>&1; cat secret hidden/secret link/secret */secret up/in/secret f1 empty missing 2>&1; echo x 2>&1 >open/x; set -- /proc/[0-9]*; echo $#; " +
			"ls /dev; grep -E '^(NoNewPrivs|Seccomp|CapEff|CapBnd)' /proc/self/status; echo x >/proc/self/comm; ls -l /proc/self/fd | grep -c '^l'; sed 's,^[^/]*,,;s,^/[0-9]* ,mask ,;s/ - .*//' /proc/self/mountinfo | sort"
		script := "cd " + dir + " && { " + look + "; } 2>&1; grep ^NoNewPrivs /proc/self/status"
		first := profileText(deny("/hidden")...)
		if tt.entries == nil {
			first = profileText()
		}
		var got string
		used := false
		for try := 0; try == 0 || try < calmTries && tt.used && !used; try++ {
			a := prepareFor(t, toRead(first)...)
			a.args = toRead(profileText(tt.entries...))
			got, used = a.run(script)
		}
		other := &ahead{t: t, args: toRead(profileText(tt.entries...)), env: "PATH=/usr/bin:/bin\x00"}
		other.cmd, other.socket = waiting(t)
		want, _ := other.run(script)
		if used != tt.used || got != want || !strings.Contains(got, "NoNewPrivs:\t1") {
			t.Errorf("%s: used %v:\n%s\nwant\n%s", tt.name, used, got, want)
		}
		for _, name := range tt.entries {
			name = strings.TrimSuffix(name, "=deny")
			if _, text, denied := strings.Cut(got, name+"/secret: "); denied && !strings.HasPrefix(text, "Permission denied") {
				t.Errorf("%s: %s", tt.name, text)
			}
		}
	}
}

// TestPreparedToReadIsOld: what an order denies is masked as it is then, and what is exchanged meanwhile has another sandbox
// made.
func TestPreparedToReadIsOld(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	mkdir(t, dir)
	mkdir(t, dir+"/hidden")
	write(t, dir+"/hidden/secret", "secret")
	for i, change := range []func(){
		func() {},
		func() { remove(t, dir+"/hidden"); mkdir(t, dir+"/hidden"); write(t, dir+"/hidden/secret", "secret") },
		func() {
			rename(t, dir+"/hidden", dir+"/was")
			mkdir(t, dir+"/hidden")
			write(t, dir+"/hidden/secret", "secret")
			remove(t, dir+"/was")
		},
	} {
		for _, first := range []string{profileText(), profileText(dir + "/hidden=deny")} {
			a := prepareFor(t, toRead(first)...)
			change()
			a.args = toRead(profileText(dir + "/hidden=deny"))
			if got, used := a.run("cat " + dir + "/hidden/secret; echo end"); strings.Contains(strings.ReplaceAll(got, "/secret", ""), "secret") ||
				!strings.HasSuffix(got, "end\n") || used && i > 0 && first != profileText() {
				t.Errorf("change %d, used %v: %s", i, used, got)
			}
		}
	}
}

// TestPreparedToReadForAnother: a sandbox for file requests that change nothing is not used for anything else, and no other is
// used for them.
func TestPreparedToReadForAnother(t *testing.T) {
	plain := []string{"--permission-profile", profileText(), "--sandbox-policy-cwd", "/"}
	writing := append([]string{"--trusted-helper"}, plain...)
	for i, tt := range [][2][]string{{toRead(profileText()), plain}, {plain, toRead(profileText())}, {toRead(profileText()), writing}, {plain, writing}} {
		a := prepareFor(t, tt[0]...)
		a.args = tt[1]
		if got, used := a.run("echo end"); used || got != "end\n" {
			t.Errorf("%d: used %v: %s", i, used, got)
		}
	}
}

// TestCanAdd: only masks of what the host shows are added to a view that was begun, as many as there are.
func TestCanAdd(t *testing.T) {
	dir := func(target string) sandbox.Mount { return sandbox.Mount{Kind: sandbox.EmptyDir, Target: target} }
	first := []sandbox.Mount{dir("/a"), {Kind: sandbox.BindReadOnly, Source: "/b", Target: "/b"}}
	holes := dir("/c")
	holes.Holes = []sandbox.Hole{{Path: "x"}}
	listed := dir("/c")
	listed.Mode = 0o111
	for _, tt := range []struct {
		added []sandbox.Mount
		want  bool
	}{
		{nil, true},
		{[]sandbox.Mount{dir("/c")}, true},
		{[]sandbox.Mount{dir("/c"), dir("/d")}, true},
		{[]sandbox.Mount{dir("/c"), dir("/d"), dir("/e")}, false},
		{[]sandbox.Mount{{Kind: sandbox.EmptyFile, Target: "/f"}}, false},
		{[]sandbox.Mount{{Kind: sandbox.BindWritable, Source: "/c", Target: "/c"}}, false},
		{[]sandbox.Mount{{Kind: sandbox.BindReadOnly, Source: "/c", Target: "/c"}}, false},
		{[]sandbox.Mount{{Kind: sandbox.Link, Source: "/c", Target: "/c"}}, false},
		{[]sandbox.Mount{holes}, false},
		{[]sandbox.Mount{listed}, false},
		{[]sandbox.Mount{dir("/dev/shm")}, false},
		{[]sandbox.Mount{dir("/proc/1")}, false},
		{[]sandbox.Mount{dir("/process")}, true},
	} {
		m := &mounter{first: first}
		for range 2 {
			m.masks = append(m.masks, madeMask{of: dir("spare"), spare: true})
		}
		if got := m.canAdd(append(first[:2:2], tt.added...)); got != tt.want {
			t.Errorf("%+v: %v", tt.added, got)
		}
		if got := m.canAdd(append(tt.added[:len(tt.added):len(tt.added)], first...)); got != tt.want {
			t.Errorf("before the others, %+v: %v", tt.added, got)
		}
	}
	m := &mounter{first: first, masks: []madeMask{{of: dir("spare"), spare: true}}}
	if m.canAdd(append([]sandbox.Mount{dir("/b/c")}, first...)) {
		t.Error("a mask below a mount that comes after it")
	}
	if !m.canAdd(append(first[:2:2], dir("/b/c"))) {
		t.Error("a mask below a mount that comes before it cannot be added")
	}
}
