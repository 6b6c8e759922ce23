package info

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// only returns a runs function for which only some programs exist.
func only(programs ...string) func(string) bool {
	return func(path string) bool { return slices.Contains(programs, path) }
}

func TestChooseShell(t *testing.T) {
	for _, tt := range []struct {
		name, login, path string
		there             []string
		want              Shell
	}{
		{"the login shell", "/opt/zsh", "/usr/bin", []string{"/opt/zsh", "/usr/bin/bash"}, Shell{"zsh", "/opt/zsh"}},
		{"fish", "/usr/bin/fish", "", []string{"/usr/bin/fish", "/bin/bash"}, Shell{"fish", "/usr/bin/fish"}},
		{"a login shell that is gone", "/usr/bin/zsh", "", []string{"/bin/bash"}, Shell{"bash", "/bin/bash"}},
		{"no shell for commands", "/usr/sbin/nologin", "", []string{"/usr/sbin/nologin", "/bin/zsh"}, Shell{"zsh", "/bin/zsh"}},
		{"one that clients do not know", "/bin/tcsh", "", []string{"/bin/tcsh", "/bin/bash"}, Shell{"bash", "/bin/bash"}},
		{"only the whole name counts", "/bin/bash5", "", []string{"/bin/bash5"}, Shell{"sh", "/bin/sh"}},
		{"a relative login shell", "bash", "", []string{"bash"}, Shell{"sh", "/bin/sh"}},
		{"PATH comes first", "", "/p:/q", []string{"/q/bash", "/usr/bin/bash"}, Shell{"bash", "/q/bash"}},
		{"bash anywhere before zsh", "", "/p", []string{"/p/zsh", "/bin/bash"}, Shell{"bash", "/bin/bash"}},
		{"relative places do not count", "", ".::bin", []string{"bash", "bin/bash", "/bin/zsh"}, Shell{"zsh", "/bin/zsh"}},
		{"nothing is there", "", "", nil, Shell{"sh", "/bin/sh"}},
	} {
		if got := chooseShell(tt.login, tt.path, only(tt.there...)); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestRuns(t *testing.T) {
	dir := t.TempDir()
	program, plain := filepath.Join(dir, "program"), filepath.Join(dir, "plain")
	for path, mode := range map[string]os.FileMode{program: 0o755, plain: 0o644} {
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		program: true, link: true, plain: false, dir: false, filepath.Join(dir, "none"): false, "": false,
	} {
		if runs(path) != want {
			t.Errorf("runs(%q) = %v", path, !want)
		}
	}
}

func TestDescribe(t *testing.T) {
	root := account{home: "/root", shell: "/bin/bash"}
	for _, tt := range []struct {
		name string
		env  map[string]string
		cwd  string
		user account
		want Info
	}{
		{"nothing set", nil, "/c", root, Info{Cwd: "/c", TempDir: "/tmp", Home: "/root"}},
		{"HOME", map[string]string{"HOME": "/h/../x/"}, "/c", root, Info{Cwd: "/c", TempDir: "/tmp", Home: "/x"}},
		{"a wrong HOME", map[string]string{"HOME": "h"}, "/c", root, Info{Cwd: "/c", TempDir: "/tmp"}},
		{"an unknown user", nil, "/c", account{}, Info{Cwd: "/c", TempDir: "/tmp"}},
		{"TMPDIR", map[string]string{"TMPDIR": "/t/"}, "/c", root, Info{Cwd: "/c", TempDir: "/t", Home: "/root", TemporaryDirectories: []string{"/t"}}},
		{"a relative TMPDIR", map[string]string{"TMPDIR": "t"}, "/c", root, Info{Cwd: "/c", TempDir: "/c/t", Home: "/root", TemporaryDirectories: []string{"/c/t"}}},
		{"a relative TMPDIR nowhere", map[string]string{"TMPDIR": "t"}, "", root, Info{TempDir: "/tmp", Home: "/root"}},
	} {
		tt.want.Shell = Shell{"bash", "/bin/bash"}
		tt.want.PlatformOS = "linux"
		got := describe(machine{
			getenv: func(name string) string { return tt.env[name] },
			user:   tt.user, cwd: tt.cwd, runs: only("/bin/bash"),
		})
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestRead(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	t.Chdir(link) // sets PWD to the link
	t.Setenv("HOME", dir)
	t.Setenv("TMPDIR", link)
	info := Read()
	if info.Cwd != dir || info.Home != dir || info.TempDir != link || !slices.Equal(info.TemporaryDirectories, []string{link}) {
		t.Errorf("got %+v; want info.Cwd %v, info.Home %v, info.TempDir %v, info.TemporaryDirectories []string{link}", info, dir, dir, link)
	}
	if !filepath.IsAbs(info.Shell.Path) || info.Shell.Name != filepath.Base(info.Shell.Path) {
		t.Errorf("shell %+v", info.Shell)
	}
}

func TestReadInARemovedDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if info := Read(); info.Cwd != "" {
		t.Errorf("cwd %q", info.Cwd)
	}
}

func TestFindUser(t *testing.T) {
	const database = "root:x:0:0:root:/root:/bin/bash\n" +
		"# a comment\n" +
		"broken:x:7\n" +
		"svc:x:7:7::/srv:/usr/sbin/nologin\n" +
		"twin:x:7:7::/twin:/bin/sh\n" +
		"+::::::\n" +
		"last:x:1000:1000:A. Person,,,:/home/last:/bin/zsh"
	for uid, want := range map[int]account{
		0:     {"/root", "/bin/bash"},
		7:     {"/srv", "/usr/sbin/nologin"},
		1000:  {"/home/last", "/bin/zsh"},
		12345: {},
	} {
		if got := findUser(strings.NewReader(database), uid); got != want {
			t.Errorf("%d: %+v, want %+v", uid, got, want)
		}
	}
}

func TestLookupUserWithoutADatabase(t *testing.T) {
	if got := lookupUser(filepath.Join(t.TempDir(), "none"), 0); got != (account{}) {
		t.Errorf("got %+v, want account{}", got)
	}
}

func TestLookupUserIsBounded(t *testing.T) {
	database := filepath.Join(t.TempDir(), "passwd")
	entry := "a:x:5:5::/a:/bin/sh\n"
	comments := strings.Repeat("#"+strings.Repeat("x", 1022)+"\n", maxUserDatabase/1024)
	text := comments[len(entry):] + entry + "b:x:6:6::/b:/bin/sh\n"
	if err := os.WriteFile(database, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := lookupUser(database, 5); got.home != "/a" {
		t.Errorf("the last within the limit: %+v", got)
	}
	if got := lookupUser(database, 6); got != (account{}) {
		t.Errorf("the first past it: %+v", got)
	}
}

// FuzzFindUser checks that a found entry is a whole line of the file.
func FuzzFindUser(f *testing.F) {
	f.Add("root:x:0:0:root:/root:/bin/bash\n", 0)
	f.Add("a:x:1:1::/:/s\r\nb:x:2", 1)
	f.Fuzz(func(t *testing.T, database string, uid int) {
		got := findUser(strings.NewReader(database), uid)
		if got == (account{}) {
			return
		}
		for _, line := range strings.FieldsFunc(database, func(c rune) bool { return c == '\n' }) {
			if strings.HasSuffix(strings.TrimSuffix(line, "\r"), ":"+got.home+":"+got.shell) {
				return
			}
		}
		t.Errorf("%+v is in no line of %q", got, database)
	})
}
