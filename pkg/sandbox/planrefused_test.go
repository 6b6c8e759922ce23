package sandbox

import (
	"fmt"
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
			"metadata that is a link", []string{"/w/.git -> /other", "/other/"}, "root=read /w=write",
			"cannot enforce sandbox read-only path /w/.git because it crosses writable symlink /w/.git",
		},
		{
			"a link below the target of a link", []string{"/l -> /real", "/real/x -> /other", "/other/y/"}, "root=read /real=write /l/x/y=deny",
			"cannot enforce sandbox deny-read path /l/x/y because it crosses writable symlink /l/x",
		},
		{
			"a workspace behind a link in another writable root", []string{"/o/l -> /o/real", "/o/real/w/"}, "root=read /o=write /o/l/w=write",
			"cannot enforce sandbox writable path /o/l/w because it crosses writable symlink /o/l",
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
