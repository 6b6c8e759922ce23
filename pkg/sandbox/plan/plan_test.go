package plan

import (
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/sandbox/permissions"
)

// mounts makes a plan, as lines: the root if it is not the usual one, the
// mounts, and what is undone.
func mounts(t *testing.T, host memory, list string, scope permissions.Scope) ([]string, error) {
	t.Helper()
	plan, err := Make(managed(t, list), scope, host, false)
	if err != nil {
		return nil, err
	}
	var lines []string
	switch plan.Root {
	case RootWritable:
		lines = append(lines, "root writable")
	case RootEmpty:
		lines = append(lines, "root empty")
	}
	for _, m := range plan.Mounts {
		lines = append(lines, line(m))
	}
	for _, u := range plan.Undo {
		lines = append(lines, "undo "+u.Path)
	}
	return lines, nil
}

// deep has more parent directories than a chain of repositories may have.
var deep = "/r" + strings.Repeat("/d", 40)

func TestPlans(t *testing.T) {
	for _, tt := range []struct {
		name    string
		host    []string
		entries string
		want    []string
	}{
		{
			name:    "the example of Codex CLI",
			host:    []string{"/w/.git gitdir: git", "/w/git/", "/w/sec/", "/w/a/b/", "/w/f.env text"},
			entries: "root=read /w=write /w/a=deny /w/a/b=write /w/f.env=deny /w/ro/x=read /w/sec=read",
			want: []string{
				"rw /w", "dir 555 /w/.agents placeholder", "dir 555 /w/.codex placeholder", "ro /w/.git", "ro /w/git",
				"file 600 /w/ro placeholder", "ro /w/sec", "dir 111 /w/a +b/", "file 000 /w/f.env",
				"rw /w/a/b", "dir 555 /w/a/b/.agents placeholder", "dir 555 /w/a/b/.codex placeholder", "undo /w/a/b/.git",
			},
		},
		{
			name:    "everything read",
			entries: "root=read",
		},
		{
			name:    "a read-only folder in a workspace",
			host:    []string{"/w/.git/HEAD ref", "/w/.agents/", "/w/.codex/", "/w/ro/"},
			entries: "root=read /w=write /w/ro=read",
			want:    []string{"rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git", "ro /w/ro"},
		},
		{
			name:    "metadata that is granted is not protected",
			host:    []string{"/w/.git/", "/w/.codex/"},
			entries: "root=read /w=write /w/.git=write /w/.agents=write",
			want: []string{
				"rw /w", "ro /w/.codex", "rw /w/.git", "dir 555 /w/.git/.agents placeholder", "dir 555 /w/.git/.codex placeholder", "dir 555 /w/.git/.git placeholder",
			},
		},
		{
			name:    "a missing .git below a work tree is undone",
			host:    []string{"/p/.git/HEAD ref", "/p/w/.agents/", "/p/w/.codex/"},
			entries: "root=read /p/w=write",
			want:    []string{"rw /p/w", "ro /p/w/.agents", "ro /p/w/.codex", "undo /p/w/.git"},
		},
		{
			name:    "a .git without HEAD is no work tree",
			host:    []string{"/p/.git/", "/p/w/.agents/", "/p/w/.codex/"},
			entries: "root=read /p/w=write",
			want:    []string{"rw /p/w", "ro /p/w/.agents", "ro /p/w/.codex", "dir 555 /p/w/.git placeholder"},
		},
		{
			name:    "an empty file of a protected name is not taken for missing",
			host:    []string{"/w/.git", "/w/.agents/", "/w/.codex/"},
			entries: "root=read /w=write",
			want:    []string{"rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git"},
		},
		{
			name:    "metadata that is a link keeps its link",
			host:    []string{"/w/.git -> /p/.git", "/p/.git/HEAD ref", "/w/.codex -> /p/c", "/p/c/", "/w/.agents -> /p/missing"},
			entries: "root=read /w=write",
			want:    []string{"rw /w", "link ro /w/.agents", "link ro /w/.codex", "link ro /w/.git"},
		},
		{
			name:    "and what the link leads to is protected",
			host:    []string{"/w/.git -> /p/git", "/p/git/HEAD ref", "/w/.agents/", "/w/.codex -> /p/c", "/p/.git/", "/p/.agents/", "/p/.codex/"},
			entries: "root=read /w=write /w/.git=read /p=write",
			want: []string{
				"rw /p", "ro /p/.agents", "ro /p/.codex", "ro /p/.git", "file 600 /p/c placeholder", "ro /p/git",
				"rw /w", "ro /w/.agents", "link ro /w/.codex", "link ro /w/.git",
			},
		},
		{
			name:    "a gitdir outside is not mounted",
			host:    []string{"/w/.git gitdir: /p/.git/worktrees/w", "/p/.git/worktrees/w/", "/w/.agents/", "/w/.codex/"},
			entries: "root=read /w=write",
			want:    []string{"rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git"},
		},
		{
			name:    "a work tree whose repository is granted can commit",
			host:    []string{"/w/.git gitdir: /p/.git/worktrees/w", "/p/.git/worktrees/w/commondir ../..", "/p/.git/.git/", "/p/.git/.agents/", "/p/.git/.codex/", "/w/.agents/", "/w/.codex/"},
			entries: "root=read /w=write /p/.git=write",
			want:    []string{"rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git", "rw /p/.git", "ro /p/.git/.agents", "ro /p/.git/.codex", "ro /p/.git/.git"},
		},
		{
			name:    "but not with a grant of a directory above it",
			host:    []string{"/w/.git gitdir: /p/git/worktrees/w", "/p/git/worktrees/w/commondir ../..", "/p/.git/", "/p/.agents/", "/p/.codex/", "/w/.agents/", "/w/.codex/"},
			entries: "root=read /w=write /p=write",
			want:    []string{"rw /p", "ro /p/.agents", "ro /p/.codex", "ro /p/.git", "ro /p/git", "ro /p/git/worktrees/w", "rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git"},
		},
		{
			name:    "and what a granted repository leads to is protected",
			host:    []string{"/w/.git gitdir: /p/git", "/p/git/hooks -> /p/h", "/p/h/", "/p/.git/", "/p/.agents/", "/p/.codex/", "/p/git/.git/", "/p/git/.agents/", "/p/git/.codex/", "/w/.agents/", "/w/.codex/"},
			entries: "root=read /w=write /p=write /p/git=write",
			want: []string{
				"rw /p", "ro /p/.agents", "ro /p/.codex", "ro /p/.git", "ro /p/h", "rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git",
				"rw /p/git", "ro /p/git/.agents", "ro /p/git/.codex", "ro /p/git/.git",
			},
		},
		{
			name:    "a gitdir that is missing is not created",
			host:    []string{"/w/.git gitdir: modules/w.git", "/w/.agents/", "/w/.codex/"},
			entries: "root=read /w=write",
			want:    []string{"rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git", "file 600 /w/modules placeholder"},
		},
		{
			name:    "nor in another writable root",
			host:    []string{"/w/.git gitdir: ../p/git/w", "/w/.agents/", "/w/.codex/", "/p/git/", "/p/.git/", "/p/.agents/", "/p/.codex/"},
			entries: "root=read /w=write /p=write",
			want: []string{
				"rw /p", "rw /p/git", "ro /p/.agents", "ro /p/.codex", "ro /p/.git", "file 600 /p/git/w placeholder",
				"rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git",
			},
		},
		{
			name:    "nor in a .git that is read-only already",
			host:    []string{"/w/.git gitdir: ../p/.git/modules/w", "/w/.agents/", "/w/.codex/", "/p/.git/", "/p/.agents/", "/p/.codex/"},
			entries: "root=read /w=write /p=write",
			want: []string{
				"rw /p", "ro /p/.agents", "ro /p/.codex", "ro /p/.git", "rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git",
			},
		},
		{
			name: "a work tree whose common directory lies in another writable root",
			host: []string{
				"/w/.git gitdir: /o/r/worktrees/w", "/w/.agents/", "/w/.codex/",
				"/o/r/worktrees/w/commondir ../..", "/o/r/config text", "/o/.git/", "/o/.agents/", "/o/.codex/",
			},
			entries: "root=read /w=write /o=write",
			want: []string{
				"rw /o", "ro /o/.agents", "ro /o/.codex", "ro /o/.git", "ro /o/r", "ro /o/r/worktrees/w",
				"rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git",
			},
		},
		{
			name: "a common directory that is missing, and links to what is outside of .git",
			host: []string{
				"/w/.git/commondir ../common", "/w/.git/hooks -> ../scripts/hooks", "/w/.git/config -> ../config",
				"/w/.agents/", "/w/.codex/", "/w/scripts/hooks/post-commit text",
			},
			entries: "root=read /w=write",
			want: []string{
				"rw /w", "rw /w/scripts", "ro /w/.agents", "ro /w/.codex", "ro /w/.git",
				"file 600 /w/common placeholder", "file 600 /w/config placeholder", "ro /w/scripts/hooks",
			},
		},
		{
			name:    "a .git above that leads into the workspace",
			host:    []string{"/r/.git gitdir: w/meta", "/r/w/.agents/", "/r/w/.codex/"},
			entries: "root=read /r/w=write",
			want: []string{
				"rw /r/w", "ro /r/w/.agents", "ro /r/w/.codex", "file 600 /r/w/meta placeholder", "undo /r/w/.git",
			},
		},
		{
			name:    "a .git far above that leads into the workspace",
			host:    []string{"/r/.git gitdir: " + deep[len("/r/"):] + "/meta", deep + "/.agents/", deep + "/.codex/"},
			entries: "root=read " + deep + "=write",
			want: []string{
				"rw " + deep, "ro " + deep + "/.agents", "ro " + deep + "/.codex", "file 600 " + deep + "/meta placeholder", "undo " + deep + "/.git",
			},
		},
		{
			name:    "a pointer that goes down and up again",
			host:    []string{"/w/.git gitdir: missing/../meta", "/w/.agents/", "/w/.codex/"},
			entries: "root=read /w=write",
			want:    []string{"rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git", "file 600 /w/missing placeholder"},
		},
		{
			name:    "a .git that may be written protects nothing else",
			host:    []string{"/w/.git gitdir: modules/w.git", "/w/.agents/", "/w/.codex/"},
			entries: "root=read /w=write /w/.git=write",
			want:    []string{"rw /w", "ro /w/.agents", "ro /w/.codex", "rw /w/.git"},
		},
		{
			name:    "a missing writable root is skipped",
			entries: "root=read /missing=write",
		},
		{
			name:    "a file as a writable root",
			host:    []string{"/w/f text"},
			entries: "root=read /w/f=write",
			want:    []string{"rw /w/f"},
		},
		{
			name:    "a writable root behind a link is mounted where it leads",
			host:    []string{"/l -> /real", "/real/.git/", "/real/sec/", "/real/.agents/", "/real/.codex/"},
			entries: "root=read /l=write /l/sec=deny",
			want:    []string{"rw /real", "ro /real/.agents", "ro /real/.codex", "ro /real/.git", "dir 000 /real/sec"},
		},
		{
			name:    "deny outside of writable roots comes first, shallow first",
			host:    []string{"/secret/b/", "/other text", "/w/.git/", "/w/.agents/", "/w/.codex/"},
			entries: "root=read /w=write /secret=deny /other=deny",
			want:    []string{"file 000 /other", "dir 000 /secret", "rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git"},
		},
		{
			name:    "the directories between nested writable roots keep their names",
			host:    []string{"/o/a/b/w/.git/", "/o/a/b/w/.agents/", "/o/a/b/w/.codex/", "/o/a/b/w/d/secret text", "/o/.git/", "/o/.agents/", "/o/.codex/"},
			entries: "root=read /o=write /o/a/b/w=write /o/a/b/w/d/secret=deny",
			want: []string{
				"rw /o", "rw /o/a", "rw /o/a/b", "ro /o/.agents", "ro /o/.codex", "ro /o/.git",
				"rw /o/a/b/w", "rw /o/a/b/w/d", "ro /o/a/b/w/.agents", "ro /o/a/b/w/.codex", "ro /o/a/b/w/.git", "file 000 /o/a/b/w/d/secret",
			},
		},
		{
			name:    "below a writable / too, but for the view's own directories",
			host:    []string{"/a/f text", "/a/w/f text", "/.git/", "/.agents/", "/.codex/", "/dev/x/y text", "/etc text"},
			entries: "root=write /a/w/f=write /dev/x/y=deny /etc=deny",
			want:    []string{"root writable", "rw /a", "rw /a/w", "ro /.agents", "ro /.codex", "ro /.git", "file 000 /etc", "file 000 /dev/x/y", "rw /a/w/f"},
		},
		{
			name:    "what lies in something read-only or masked is not made writable",
			host:    []string{"/w/ro/x/y/f text", "/w/m/x/f text", "/w/.git/", "/w/.agents/", "/w/.codex/"},
			entries: "root=read /w=write /w/ro=read /w/ro/x/y/f=write /w/m=deny /w/m/x/f=write",
			want: []string{
				"rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git", "ro /w/ro", "dir 111 /w/m +x/ +x/f", "rw /w/m/x/f", "rw /w/ro/x/y/f",
			},
		},
		{
			name:    "a denied path that is missing outside needs no placeholder",
			entries: "root=read /missing/x=deny",
		},
		{
			name:    "a denied path that is missing inside has a placeholder at its first missing part",
			host:    []string{"/w/.git/", "/w/.agents/", "/w/.codex/"},
			entries: "root=read /w=write /w/x/y/z=deny",
			want:    []string{"rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git", "file 000 /w/x placeholder"},
		},
		{
			name:    "a path that would lie below a file keeps the file",
			host:    []string{"/w/.git gitdir: /nowhere", "/w/f text", "/w/.agents/", "/w/.codex/"},
			entries: "root=read /w=write /w/f/x=deny /w/.git/hooks=read",
			want:    []string{"rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git", "ro /w/f"},
		},
		{
			name:    "a denied ancestor of the workspace with something reopened to read",
			host:    []string{"/home/u/w/.git/", "/home/u/w/.agents/", "/home/u/w/.codex/", "/home/u/lib/f text", "/home/u/key text"},
			entries: "root=read /home=deny /home/u/w=write /home/u/lib/f=read",
			want: []string{
				"dir 111 /home +u/ +u/w/ +u/lib/ +u/lib/f", "ro /home/u/lib/f",
				"rw /home/u/w", "ro /home/u/w/.agents", "ro /home/u/w/.codex", "ro /home/u/w/.git",
			},
		},
		{
			name:    "write and deny by turns",
			host:    []string{"/w/.git/", "/w/.agents/", "/w/.codex/", "/w/a/b/c/d/"},
			entries: "root=read /w=write /w/a=deny /w/a/b=write /w/a/b/c=deny /w/a/b/c/d=write",
			want: []string{
				"rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git", "dir 111 /w/a +b/",
				"rw /w/a/b", "dir 555 /w/a/b/.agents placeholder", "dir 555 /w/a/b/.codex placeholder", "dir 555 /w/a/b/.git placeholder", "dir 111 /w/a/b/c +d/",
				"rw /w/a/b/c/d", "dir 555 /w/a/b/c/d/.agents placeholder", "dir 555 /w/a/b/c/d/.codex placeholder", "dir 555 /w/a/b/c/d/.git placeholder",
			},
		},
		{
			name:    "denied in denied is masked once",
			host:    []string{"/a/b/c/"},
			entries: "root=read /a=deny /a/b=deny /a/b/c=deny",
			want:    []string{"dir 000 /a"},
		},
		{
			name:    "denied in denied with something reopened in the inner one",
			host:    []string{"/a/b/c/"},
			entries: "root=read /a=deny /a/b=deny /a/b/c=read",
			want:    []string{"dir 111 /a +b/ +b/c/", "ro /a/b/c"},
		},
		{
			name:    "a writable / with a carve-out",
			host:    []string{"/.git/", "/etc/f text", "/etc/d/"},
			entries: "root=write /etc=deny /etc/d=read",
			want: []string{
				"root writable", "dir 555 /.agents placeholder", "dir 555 /.codex placeholder", "ro /.git", "ro /etc/d", "dir 111 /etc +d/", "ro /etc/d",
			},
		},
		{
			name:    "restricted reads show what is named",
			host:    []string{"/usr/bin/", "/usr/lib/", "/bin -> usr/bin", "/lib -> /usr/lib", "/w/f text", "/other/"},
			entries: "minimal=read /w=read",
			want:    []string{"root empty", "ro /usr", "ro /usr/bin", "ro /usr/lib", "ro /w", "link /bin -> usr/bin", "link /lib -> /usr/lib"},
		},
		{
			name:    "restricted reads and a denied path behind a link",
			host:    []string{"/l -> /real", "/real/secret/"},
			entries: "/l=read /real/secret=deny",
			want:    []string{"root empty", "ro /real", "link /l -> /real", "dir 000 /real/secret"},
		},
		{
			name:    "restricted reads, and what is denied where nothing is shown",
			host:    []string{"/w/", "/secret/"},
			entries: "/w=read /secret=deny",
			want:    []string{"root empty", "ro /w"},
		},
		{
			name: "nothing at all",
			want: []string{"root empty"},
		},
		{
			name:    "patterns mask matches and where their links lead",
			host:    []string{"/w/a.env text", "/w/sub/.env/", "/w/l.env -> /real", "/real text", "/w/.git/", "/w/.agents/", "/w/.codex/"},
			entries: "root=read /w=write glob:**/*.env=deny",
			want: []string{
				"file 000 /real", "rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git", "file 000 /w/a.env", "dir 000 /w/sub/.env",
			},
		},
		{
			name:    "patterns and links that lead nowhere",
			host:    []string{"/w/l.env -> /missing", "/w/.git/", "/w/.agents/", "/w/.codex/"},
			entries: "root=read /w=write glob:*.env=deny",
			want:    []string{"rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git"},
		},
		{
			name:    "patterns and links in a circle",
			host:    []string{"/w/l.env -> /w/m.env", "/w/m.env -> /w/l.env", "/w/a.env text", "/w/.git/", "/w/.agents/", "/w/.codex/"},
			entries: "root=read /w=write glob:*.env=deny",
			want:    []string{"rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git", "file 000 /w/a.env"},
		},
		{
			name:    "a pattern that matches a writable file denies it",
			host:    []string{"/w/a.env text"},
			entries: "root=read /w/a.env=write glob:*.env=deny",
			want:    []string{"file 000 /w/a.env"},
		},
		{
			name:    "the usual profile of a workspace without metadata",
			entries: "root=read project_roots=write slash_tmp=write tmpdir=write project_roots/.git=read project_roots/.agents=read project_roots/.codex=read",
			host:    []string{"/w/", "/tmp/", "/t/.git/", "/t/.agents/", "/t/.codex/"},
			want: []string{
				"rw /t", "ro /t/.agents", "ro /t/.codex", "ro /t/.git",
				"rw /tmp", "dir 555 /tmp/.agents placeholder", "dir 555 /tmp/.codex placeholder", "dir 555 /tmp/.git placeholder",
				"rw /w", "dir 555 /w/.agents placeholder", "dir 555 /w/.codex placeholder", "dir 555 /w/.git placeholder",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := mounts(t, tree(tt.host...), tt.entries, permissions.Scope{Cwd: "/w", Tmpdir: "/t"})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(tt.want, "\n  "))
			}
		})
	}
}

// kernelHost is a host with file systems of the kernel.
type kernelHost struct {
	memory
	mounts []string
}

func (h kernelHost) KernelMounts() ([]string, error) { return h.mounts, nil }

// File systems of the kernel are read-only wherever they lie, unless an entry
// names them.
func TestFileSystemsOfTheKernel(t *testing.T) {
	host := kernelHost{
		tree("/.git/", "/.agents/", "/.codex/", "/sys/fs/cgroup/a/", "/sys/fs/cgroup/.git/", "/w/.git/", "/w/.agents/", "/w/.codex/", "/w/x/proc/", "/dev/pts/", "/proc/sys/", "/ro/sys/", "/etc/"),
		[]string{"/dev", "/proc", "/sys", "/dev/pts", "/ro/sys", "/sys/fs/cgroup", "/w/x/proc"},
	}
	const slash, ws = "ro /.agents, ro /.codex, ro /.git, ", "ro /w/.agents, ro /w/.codex, ro /w/.git, ro /w/x/proc"
	for entries, want := range map[string]string{
		"root=read /w=write":                "rw /w, " + ws,
		"root=write /ro=read":               slash + "ro /ro, ro /sys, ro /ro/sys, ro /w/x/proc",
		"root=write /ro=deny":               slash + "ro /sys, ro /ro/sys, ro /w/x/proc, dir 000 /ro",
		"root=write /ro=read /w=write":      slash + "ro /ro, ro /sys, ro /ro/sys, rw /w, " + ws,
		"root=write /ro=read /etc/f=deny":   "rw /etc, " + slash + "ro /ro, ro /sys, ro /ro/sys, ro /w/x/proc, file 000 /etc/f placeholder",
		"root=read /w=write /w/x/proc=read": "rw /w, rw /w/x, " + ws,
		"root=read /w/x/proc=write":         "rw /w/x/proc, dir 555 /w/x/proc/.agents placeholder, dir 555 /w/x/proc/.codex placeholder, dir 555 /w/x/proc/.git placeholder",
	} {
		plan, err := Make(managed(t, entries), permissions.Scope{}, host, false)
		if err != nil {
			t.Errorf("%s: got error %v, want no error", entries, err)
			continue
		}
		var lines []string
		for _, m := range plan.Mounts {
			lines = append(lines, line(m))
		}
		if got := strings.Join(lines, ", "); got != want {
			t.Errorf("%s:\n got %s\nwant %s", entries, got, want)
		}
	}
	// A view in which everything may be written has none of it either.
	plan, err := Make(permissions.Profile{Kind: permissions.Disabled}, permissions.Scope{}, host, true)
	if err != nil || len(plan.Mounts) != 3 || line(plan.Mounts[0]) != "ro /sys" {
		t.Errorf(`got plan.Mounts %v, error %v; want no error, len(plan.Mounts) 3, line(plan.Mounts[0]) "ro /sys"`, plan.Mounts, err)
	}
}

// A command that may write /w/d can put a link there; a request that only reads
// must not follow it, as no other command of the policy does.
func TestPlansThatOnlyRead(t *testing.T) {
	for _, tt := range []struct {
		name    string
		host    []string
		entries string
		want    string // the shown or masked path, or the error
	}{
		{"what may be written", []string{"/w/d/", "/w/f text", "/r/"}, "minimal=read /w=write /w/d=write /r=read", "ro /r, ro /w, ro /w/d"},
		{"a mask", []string{"/w/d/x/"}, "root=read /w=write /w/d=deny /w/d/x=write", "dir 111 /w/d +x/, ro /w/d/x"},
		{"a writable root that is a link", []string{"/w/d -> /v", "/v/"}, "minimal=read /w=write /w/d=write", "cannot enforce sandbox writable path /w/d because it crosses writable symlink /w/d; if you mean the directory to which it leads now, give /v"},
		{"a readable path that is a link", []string{"/w/d -> /v", "/v/"}, "minimal=read /w=write /w/d=read", "cannot enforce sandbox read-only path /w/d because it crosses writable symlink /w/d"},
		{"a denied path that is a link", []string{"/w/d -> /v", "/v/"}, "root=read /w=write /w/d=deny", "cannot enforce sandbox deny-read path /w/d because it crosses writable symlink /w/d"},
		{"links where everything may be read", []string{"/w/.git -> /v", "/w/d -> /v", "/v/"}, "root=read /w=write /w/d=write", ""},
		{"everything but a file", []string{"/w/f text"}, "root=write /w/f=deny", "file 000 /w/f"},
		{"everything", nil, "root=write", ""},
	} {
		plan, err := MakeReading(managed(t, tt.entries), permissions.Scope{Cwd: "/w"}, tree(append(tt.host, "/w/")...))
		if err != nil {
			if err.Error() != tt.want {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
			}
			continue
		}
		var list []string
		for _, m := range plan.Mounts {
			list = append(list, line(m))
		}
		if got := strings.Join(list, ", "); got != tt.want || plan.Root == RootWritable || !plan.Confined || len(plan.Undo) > 0 {
			t.Errorf("%s: %q %+v, want %q", tt.name, got, plan, tt.want)
		}
	}
}

// TestTmpdirBehindALink: $TMPDIR grants nothing if a command could have replaced a link in it, and the command runs. A
// path that somebody has typed is refused.
func TestTmpdirBehindALink(t *testing.T) {
	host := []string{"/w/l -> /v", "/v/t/", "/w/.git/", "/w/.agents/", "/w/.codex/"}
	rest := []string{"rw /w", "ro /w/.agents", "ro /w/.codex", "ro /w/.git"}
	for _, tt := range []struct {
		name, entries, tmpdir, link, refused string
	}{
		{"a link in a writable root", "root=read /w=write tmpdir=write", "/w/l/t", "/w/l", ""},
		{"spelled with more slashes", "root=read /w=write tmpdir=write", "/w//l/t/", "/w/l", ""},
		{"typed as well", "root=read /w=write tmpdir=write /w/l/t=write", "/w/l/t", "", "give /v/t"},
		{"another path is refused", "root=read /w=write tmpdir=write /w/l=write", "/w", "", "give /v"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan, err := Make(managed(t, tt.entries), permissions.Scope{Cwd: "/w", Tmpdir: tt.tmpdir}, tree(host...), false)
			if tt.refused != "" {
				if err == nil || !strings.HasSuffix(err.Error(), tt.refused) {
					t.Errorf("got error %v, want one that ends with %q", err, tt.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range plan.Mounts {
				got = append(got, line(m))
			}
			if plan.TmpdirLink != tt.link || !slices.Equal(got, rest) {
				t.Errorf("got %q because of %q, want %q because of %q", got, plan.TmpdirLink, rest, tt.link)
			}
		})
	}
}

// A mount may hide a denied path from the plan, and not be in the view.
func TestDeniedPathsThatAreAbsent(t *testing.T) {
	host := tree("/w/", "/r/there", "/r/link -> gone", "/r/into -> /w/gone")
	for _, tt := range []struct {
		entries string
		want    []string
	}{
		{"root=read /w=write", nil},
		{"root=read /w=write /r/there=deny", nil},
		{"root=read /w=write /r/gone/deep=deny", []string{"/r/gone/deep"}},
		{"root=read /w=write /r/there/gone=deny", []string{"/r/there/gone"}},
		{"root=read /w=write /r/link=deny", []string{"/r/link"}},
		{"root=read /w=write /r/into=deny", nil}, // masked where it leads
		{"minimal=read /r=read /r/gone=deny", []string{"/r/gone"}},
		{"root=read /w=write /w/gone=deny /w/gone/deep=deny", nil}, // masked
		{"root=read /dev/gone=deny /proc/gone=deny", nil},
	} {
		plan, err := Make(managed(t, tt.entries), permissions.Scope{Cwd: "/w"}, host, false)
		if err != nil {
			t.Errorf("%s: got error %v, want no error", tt.entries, err)
		} else if !slices.Equal(plan.Absent, tt.want) {
			t.Errorf("%s: %q, want %q", tt.entries, plan.Absent, tt.want)
		}
	}
}

// TestOwnDevices: nothing of the host is mounted on the devices that every view has, and they cannot be denied, except
// those that no sandbox needs.
func TestOwnDevices(t *testing.T) {
	host := tree("/w/", "/dev/null", "/dev/zero", "/dev/kvm", "/dev/pts/", "/dev/shm/", "/w/link -> /dev/null", "/w/dev -> /dev")
	for _, tt := range []struct {
		entries string
		want    []string // the targets below /dev
		refused string
		list    bool
	}{
		{entries: "root=read /dev/null=write /dev/zero=write /dev/pts=write /dev/null=read"},
		{entries: "root=read /dev=write", list: true},
		{entries: "minimal=read /dev=read /dev/null=read", list: true},
		{entries: "minimal=read /w/dev=read", list: true},
		{entries: "root=write /w=deny /dev=read /dev/null=read /dev/zero=read"},
		{entries: "root=read /dev/kvm=write", want: []string{"/dev/kvm"}},
		{entries: "minimal=read /dev/shm=read /dev/kvm=read", want: []string{"/dev/kvm", "/dev/shm"}},
		{entries: "root=read /dev/zero=deny", want: []string{"/dev/zero"}},
		{entries: "root=read /w=write glob:/w/l*=deny /dev/zero=deny", want: []string{"/dev/zero"}},
		{entries: "root=read /w/link=deny"},
		{entries: "root=read /dev/null=deny", refused: "/dev/null"},
		{entries: "root=read glob:/dev/n*=deny"}, // where nothing can be read
		{entries: "root=read /w=write glob:/w/d*=deny", refused: "/dev"},
		{entries: "root=read /dev=deny", refused: "/dev"},
	} {
		plan, err := Make(managed(t, tt.entries), permissions.Scope{Cwd: "/w"}, host, false)
		if tt.refused != "" {
			if err == nil || !strings.Contains(err.Error(), "every sandbox needs "+tt.refused+";") {
				t.Errorf("%s: got error %v, want an error with %q", tt.entries, err, "every sandbox needs "+tt.refused+";")
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: got error %v, want no error", tt.entries, err)
			continue
		}
		var got []string
		for _, m := range plan.Mounts {
			if permissions.Within(m.Target, "/dev") && !m.Placeholder {
				got = append(got, m.Target)
			}
		}
		if !slices.Equal(got, tt.want) || plan.ListDev != tt.list {
			t.Errorf("%s: %q, want %q; the names of /dev: %v", tt.entries, got, tt.want, plan.ListDev)
		}
	}
}

// Parts that are not about paths.
func TestPlansBeyondMounts(t *testing.T) {
	restricted := managed(t, "root=read")
	on := restricted
	on.Network = permissions.NetworkEnabled
	full := managed(t, "root=write")
	for _, tt := range []struct {
		name     string
		profile  permissions.Profile
		proxied  bool
		confined bool
		network  Network
		free     bool
		root     RootKind
	}{
		{"restricted", restricted, false, true, NetworkOff, false, RootReadOnly},
		{"restricted with the network", on, false, true, NetworkOn, false, RootReadOnly},
		{"restricted with a proxy", on, true, true, NetworkProxy, false, RootReadOnly},
		{"full write", full, false, false, NetworkOff, false, RootWritable},
		{"full write with a proxy", full, true, true, NetworkProxy, false, RootWritable},
		{"disabled", permissions.Profile{Kind: permissions.Disabled}, false, false, NetworkOn, true, RootWritable},
		{"disabled with a proxy", permissions.Profile{Kind: permissions.Disabled}, true, true, NetworkProxy, false, RootWritable},
		{"external", permissions.Profile{Kind: permissions.External, FileSystem: permissions.FileSystem{Unrestricted: true}}, false, false, NetworkOff, false, RootWritable},
	} {
		plan, err := Make(tt.profile, permissions.Scope{Cwd: "/w"}, tree("/w/"), tt.proxied)
		if err != nil {
			t.Fatalf("%s: got error %v, want no error", tt.name, err)
		}
		if plan.Confined != tt.confined || plan.Network != tt.network || plan.Unfiltered != tt.free || plan.Root != tt.root {
			t.Errorf("%s: got %+v; want plan.Confined %v, plan.Network %v, plan.Unfiltered %v, plan.Root %v", tt.name, plan, tt.confined, tt.network, tt.free, tt.root)
		}
	}
}

// The identity of the file that a view shows at a mount's target: the one that the plan
// saw, or a mask.
func TestShown(t *testing.T) {
	id := FileID{1, 2}
	bind := func(kind MountKind, target string) Mount {
		return Mount{Kind: kind, Source: target, Target: target, ID: id}
	}
	mask := Mount{Kind: EmptyDir, Target: "/ws/p", ID: id}
	plan := &Plan{Mounts: []Mount{
		bind(BindWritable, "/ws"), bind(BindReadOnly, "/ws/p/pub"), mask, bind(BindReadOnly, "/ws/p/pub"), bind(BindReadOnly, "/ws/p/pub/x"),
		bind(BindReadOnly, "/ws/r"), bind(BindReadOnly, "/dev/shm"),
	}}
	want := []FileID{id, id, id, {}, id, id, {}}
	for i := range plan.Mounts {
		if got := plan.Shown(i); got != want[i] {
			t.Errorf("at %s, mount %d: %v, want %v", plan.Mounts[i].Target, i, got, want[i])
		}
	}
	plan.Root = RootEmpty
	if got := plan.Shown(0); got != (FileID{}) {
		t.Errorf("in an empty root: %v", got)
	}
}
