package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/sandbox/permissions"
)

func TestPlansThatAreRefused(t *testing.T) {
	// A command that may write /w decides where /l leads.
	nested := []string{"/l -> w/m", "/w/m -> ../proj", "/proj/x/y/f text"}
	for _, tt := range []struct {
		name    string
		host    []string
		entries string
		want    string
	}{
		{
			"a read-only path behind a writable link", []string{"/w/l -> /other", "/other/x/"}, "root=read /w=write /w/l/x=read",
			"cannot enforce sandbox read-only path /w/l/x because it crosses writable symlink /w/l",
		},
		{
			"a read-only path that is a link of a writable /", []string{"/w/l -> /w/f", "/w/f text"}, "root=write /w/l=read",
			"cannot enforce sandbox read-only path /w/l because it crosses writable symlink /w/l",
		},
		{
			"a read-only path behind a link of a writable /", []string{"/w/l -> /other", "/other/x/"}, "root=write /w=write /w/l/x=read",
			"cannot enforce sandbox read-only path /w/l/x because it crosses writable symlink /w/l",
		},
		{
			"a denied path behind a writable link", []string{"/w/l -> /other", "/other/x/"}, "root=read /w=write /w/l/x=deny",
			"cannot enforce sandbox deny-read path /w/l/x because it crosses writable symlink /w/l",
		},
		{
			"a denied path that is itself a writable link", []string{"/w/l -> /other", "/other/"}, "root=read /w=write /w/l=deny",
			"cannot enforce sandbox deny-read path /w/l because it crosses writable symlink /w/l",
		},
		{
			"a repository behind a writable link", []string{"/w/.git gitdir: l/x", "/w/l -> /w/other"}, "root=read /w=write",
			"cannot enforce sandbox read-only path /w/l/x because it crosses writable symlink /w/l",
		},
		{
			"metadata behind a link to a writable link", []string{"/w/.git -> /w/l", "/w/l -> /other", "/other/"}, "root=read /w=write",
			"cannot enforce sandbox read-only path /w/.git because it crosses writable symlink /w/l",
		},
		{
			"a link below the target of a link", []string{"/l -> /real", "/real/x -> /other", "/other/y/"}, "root=read /real=write /l/x/y=deny",
			"cannot enforce sandbox deny-read path /l/x/y because it crosses writable symlink /l/x",
		},
		{
			"a workspace behind a link in another writable root", []string{"/o/l -> /o/real", "/o/real/w/"}, "root=read /o=write /o/l/w=write",
			"cannot enforce sandbox writable path /o/l/w because it crosses writable symlink /o/l; if you mean the directory to which it leads now, give /o/real/w",
		},
		{
			"a denied path behind a link to a writable link", nested, "root=read /w=write /l/x/y=deny",
			"cannot enforce sandbox deny-read path /l/x/y because it crosses writable symlink /w/m",
		},
		{
			"a workspace behind a link to a writable link", nested, "root=read /w=write /l/x=write",
			"cannot enforce sandbox writable path /l/x because it crosses writable symlink /w/m",
		},
		{
			"a workspace behind a writable link that leads above itself", []string{"/x -> /w", "/w/l -> ."}, "root=read /x/l=write",
			"cannot enforce sandbox writable path /x/l because it crosses writable symlink /x/l",
		},
		{
			"a readable path behind a link to a writable link", nested, "minimal=read /w=write /l/x=read",
			"cannot enforce sandbox read-only path /l/x because it crosses writable symlink /w/m",
		},
		{
			"a read-only path behind a link to a writable link", nested, "root=read /w=write /proj=write /l/x=read",
			"cannot enforce sandbox read-only path /l/x because it crosses writable symlink /w/m",
		},
		{
			"a repository behind a link to a writable link", append(nested, "/w/.git gitdir: /l/x/y"), "root=read /w=write",
			"cannot enforce sandbox read-only path /l/x/y because it crosses writable symlink /w/m",
		},
		{
			"a pattern below a writable link", []string{"/w/m -> /p", "/p/a.env text"}, "root=read /w=write glob:/w/m/*.env=deny",
			"cannot enforce sandbox deny-read path /w/m because it crosses writable symlink /w/m",
		},
		{
			"a denied path behind a link that leaves a writable directory", []string{"/l -> w/d/../../p", "/w/d/", "/p text"}, "root=read /w=write /l=deny",
			"cannot enforce sandbox deny-read path /l because it crosses writable symlink /w/d",
		},
		{
			"a repository behind a link that leaves a writable directory", []string{"/w/.git gitdir: /x/g", "/x -> w/d/../../real", "/w/d/", "/real/g/"}, "root=read /w=write",
			"cannot enforce sandbox read-only path /x/g because it crosses writable symlink /w/d",
		},
		{
			"a device behind a writable link", []string{"/w/null -> /dev/null", "/dev/null text"}, "root=read /w=write /w/null=write",
			"cannot enforce sandbox writable path /w/null because it crosses writable symlink /w/null",
		},
		{
			"a pattern that is none", []string{"/w/f text"}, "root=read /w=write glob:/w/[z-a]=deny",
			"unreadable glob pattern is invalid for /w",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := mounts(t, tree(tt.host...), tt.entries, permissions.Scope{Cwd: "/w"})
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%v %q, want %q", err, got, tt.want)
			}
		})
	}
}

// More matches than a sandbox can have mounts are an error.
func TestPatternsMayNotMatchTooMuch(t *testing.T) {
	const most = 8192
	host := tree("/w/")
	for i := range most {
		host.add(fmt.Sprintf("/w/%d.env", i), &node{text: "text"})
	}
	if got, err := mounts(t, host, "root=read glob:/w/*.env=deny", permissions.Scope{Cwd: "/w"}); err != nil || len(got) != most {
		t.Fatalf("%d matches: %v, %d mounts", most, err, len(got))
	}
	host.add("/w/more.env", &node{text: "text"})
	_, err := mounts(t, host, "root=read glob:/w/*.env=deny", permissions.Scope{Cwd: "/w"})
	if want := "matched more than 8192 paths"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// partly is a host on which the user can replace only some paths.
type partly struct {
	memory
	replaceable []string
}

func (h partly) CanReplace(name string) bool { return slices.Contains(h.replaceable, name) }

// TestReplaceableLinks: behind a link that the user cannot replace, another one that the user can replace is still
// found, also if only a directory above it can be replaced.
func TestReplaceableLinks(t *testing.T) {
	for _, tt := range []struct {
		host        []string
		entries     string
		replaceable string
		link        string // "": it is not refused
	}{
		{[]string{"/home -> /data", "/data/u/l -> f", "/data/u/f text"}, "root=write /home/u/l=read", "/data/u/l", "/home/u/l"},
		{[]string{"/home -> /data", "/data/u/l -> f", "/data/u/f text"}, "root=write /home/u/l=read", "/data/u/other", ""},
		{[]string{"/w/a/l -> /w/f", "/w/f text", "/l -> w/a/l"}, "root=read /w=write /l=read", "/w/a", "/w/a/l"},
		{[]string{"/w/a/l -> /w/f", "/w/f text", "/l -> w/a/l"}, "root=read /w=write /l=read", "/w", ""},
		{[]string{"/w/l -> /w/m", "/w/m -> /w/d", "/w/d/"}, "root=read /w=write /w/l=write", "/w/m", "/w/m"},
	} {
		_, err := Make(managed(t, tt.entries), permissions.Scope{Cwd: "/"}, partly{tree(tt.host...), []string{tt.replaceable}}, false)
		if tt.link == "" && err != nil || tt.link != "" && (err == nil || !strings.Contains(err.Error()+";", "because it crosses writable symlink "+tt.link+";")) {
			t.Errorf("%s, where %s can be replaced: %v", tt.entries, tt.replaceable, err)
		}
	}
}

// TestMissingEnds: the missing parts of a repository behind links cannot be created,
// however the links lead there.
func TestMissingEnds(t *testing.T) {
	const workspace = "root=read /w=write"
	// Such a plan took minutes, because each missing name was looked up from the root.
	long := strings.Repeat("m/", 1900) + "m"
	for _, tt := range []struct {
		host    []string
		entries string
		want    string
	}{
		{[]string{"/w/.git gitdir: /x/g", "/x -> w/m"}, workspace, "/w/m"},
		{[]string{"/w/.git gitdir: /x/g", "/x -> /y", "/y -> w/d/m", "/w/d/"}, workspace, "/w/d/m"},
		{[]string{"/w/.git/HEAD text", "/w/.git/hooks -> /x", "/x -> w/made"}, workspace, "/w/made"},
		{[]string{"/p/w/.git gitdir: /x/g", "/x -> y/../w/m", "/y -> /p/q", "/p/q/"}, "root=read /p/w=write", "/p/w/m"},
		{[]string{"/w/.git gitdir: /x/g", "/x -> w/m/../real"}, workspace, "/w/m"},
		{[]string{"/w/", "/l -> w/m"}, workspace + " /l=deny", "/w/m"},
		{[]string{"/w/", "/l -> w/m"}, workspace + " /l=read", "/w/m"},
		{[]string{"/w/", "/k/l -> /m", "/m -> w/d/x"}, workspace + " /k/l=read", "/w/d"},
		{[]string{"/w/", "/l -> w/" + long, "/k -> /l/" + long}, workspace + " /k=read", "/w/m"},
		{[]string{"/w/", "/l -> w/" + long, "/k -> /l/" + long}, workspace + " /k=deny", "/w/m"},
		{[]string{"/w/", "/l -> w/m"}, workspace + " /l/x=deny", "/w/m"},
		{[]string{"/w/", "/l -> w/m"}, workspace + " /l/x=read", "/w/m"},
		{[]string{"/w/", "/l -> w/m", "/k -> /l/y"}, workspace + " /k/z=deny", "/w/m"},
	} {
		plan, err := Make(managed(t, tt.entries), permissions.Scope{Cwd: "/w"}, tree(tt.host...), false)
		if err != nil || !slices.ContainsFunc(plan.Mounts, func(m Mount) bool { return m.Target == tt.want && m.Placeholder }) {
			t.Errorf("%q, %s: got error %v, plan %+v; want no error", tt.host, tt.entries, err, plan)
		}
	}
}

// TestPlatformRootsBehindLinks: the paths that every command may read do not lead through a
// link that a command has made.
func TestPlatformRootsBehindLinks(t *testing.T) {
	host := []string{"/p/secret text", "/run/current-system/sw -> /p", "/usr/bin/"}
	for entries, shown := range map[string]bool{"minimal=read": true, "minimal=read /run=write": false} {
		plan, err := Make(managed(t, entries), permissions.Scope{Cwd: "/"}, tree(host...), false)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(plan.Mounts, func(m Mount) bool { return m.Target == "/p" }); got != shown {
			t.Errorf("%s: /p is shown: %v", entries, got)
		}
	}
}
