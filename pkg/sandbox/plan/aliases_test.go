package plan

import (
	"path"
	"reflect"
	"slices"
	"testing"

	"codex.internal/pkg/sandbox/mountinfo"
	"codex.internal/pkg/sandbox/permissions"
)

// mountedAgain is a host on which some files are mounted at a second path, as in mountinfo.
type mountedAgain struct {
	memory
	mounts []mountinfo.Entry
}

func (h mountedAgain) Mounts() ([]mountinfo.Entry, error) { return h.mounts, nil }

func (h mountedAgain) Lstat(name string) (permissions.Info, error) {
	info, err := h.memory.Lstat(name)
	if n := h.at(name); n != nil {
		info.Ino = uint64(reflect.ValueOf(n).Pointer())
	}
	return info, err
}

// TestFilesAtSeveralPaths: what is denied or protected at one path is so at every path at which it is mounted.
func TestFilesAtSeveralPaths(t *testing.T) {
	for _, tt := range []struct {
		name    string
		host    []string
		again   [2]string // a directory, and the path at which it is mounted again
		root    string    // what of the file system is mounted at /; its device also has another root at the second path
		entries string
		want    []string
	}{
		{"a denied directory", []string{"/s/k text"}, [2]string{"/s", "/again"}, "/", "root=read /s=deny", []string{"dir 000 /again", "dir 000 /s"}},
		{"a directory above it", []string{"/d/s/k text"}, [2]string{"/d", "/again"}, "/", "root=read /d/s=deny", []string{"dir 000 /again/s", "dir 000 /d/s"}},
		{"a directory in it", []string{"/s/in/k text"}, [2]string{"/s/in", "/again"}, "/", "root=read /s=deny", []string{"dir 000 /again", "dir 000 /s"}},
		{"a directory in it that is granted", []string{"/s/in/k text"}, [2]string{"/s/in", "/again"}, "/", "root=read /s=deny /again=read", []string{"dir 000 /s"}},
		{"a directory that is reopened in it", []string{"/s/in/k text"}, [2]string{"/s/in", "/again"}, "/", "root=read /s=deny /s/in=read", []string{"dir 111 /s +in/", "ro /s/in"}},
		{"the second path is denied", []string{"/s/k text"}, [2]string{"/s", "/again"}, "/", "root=read /again/k=deny", []string{"file 000 /again/k", "file 000 /s/k"}},
		{"a subvolume", []string{"/s/k text"}, [2]string{"/s", "/again"}, "/@", "root=read /s/k=deny", []string{"file 000 /again/k", "file 000 /s/k"}},
		{"a pattern", []string{"/s/k.env text"}, [2]string{"/s", "/again"}, "/", "root=read glob:/s/*.env=deny", []string{"file 000 /again/k.env", "file 000 /s/k.env"}},
		{
			"in a workspace", []string{"/s/k text", "/w/.git/", "/w/.agents/", "/w/.codex/"}, [2]string{"/s", "/w/v"}, "/", "root=read /w=write /s=deny",
			[]string{"dir 000 /s", "rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git", "dir 000 /w/v"},
		},
		{
			"a protected path", []string{"/w/ro/", "/w/.git/", "/w/.agents/", "/w/.codex/", "/x/.git/", "/x/.agents/", "/x/.codex/"}, [2]string{"/w", "/x/w"}, "/", "root=read /w=write /x=write /w/ro=read",
			[]string{
				"rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git", "ro /w/ro",
				"rw /x", "rw /x/w", "ro /x/.agents", "ro /x/.codex", "ro /x/.git", "ro /x/w/.agents", "ro /x/w/.codex", "ro /x/w/.git", "ro /x/w/ro",
			},
		},
		{
			"a name that must not be created", []string{"/w/.agents/", "/w/.codex/", "/x/.git/", "/x/.agents/", "/x/.codex/"}, [2]string{"/w", "/x/w"}, "/", "root=read /w=write /x=write /x/w/.agents=write",
			[]string{
				"rw /w", "ro /w/.agents", "ro /w/.codex", "dir 555 /w/.git placeholder",
				"rw /x", "rw /x/w", "ro /x/.agents", "ro /x/.codex", "ro /x/.git", "ro /x/w/.codex", "dir 555 /x/w/.git placeholder",
				"rw /x/w/.agents", "dir 555 /x/w/.agents/.agents placeholder", "dir 555 /x/w/.agents/.codex placeholder", "dir 555 /x/w/.agents/.git placeholder",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := tree(tt.host...)
			host.add(tt.again[1], &node{dir: true})
			host.at(path.Dir(tt.again[1])).kids[path.Base(tt.again[1])] = host.at(tt.again[0])
			root := path.Join(tt.root, tt.again[0])
			plan, err := Make(managed(t, tt.entries), permissions.Scope{Cwd: "/w"}, mountedAgain{host, []mountinfo.Entry{
				{ID: "1", Parent: "0", Device: "8:1", Root: tt.root, At: "/"},
				{ID: "2", Parent: "1", Device: "8:1", Root: root, At: tt.again[1]},
				{ID: "3", Parent: "1", Device: "8:2", Root: "/", At: "/other"},
			}}, false)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range plan.Mounts {
				got = append(got, line(m))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
