package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
)

// described lists the entries of a directory: kinds, permissions, links and contents. With times,
// it adds the modification times.
func described(t *testing.T, dir string, times bool) string {
	t.Helper()
	format := "%P %y %m %l %s\\n"
	if times {
		format = "%P %y %m %l %s %TY-%Tm-%Td %TH:%TM\\n"
	}
	// Leave out the sizes of directories, which depend on their history.
	out, err := exec.Command("sh", "-c", `find "$1" -mindepth 1 -printf "$2" | sed 's/ d \([0-9]*\)  [0-9]*/ d \1/' | LC_ALL=C sort`, "sh", dir, format).CombinedOutput()
	harness.Must(t, err)
	return string(out)
}

// sampleTree contains everything that copies of trees must preserve.
func sampleTree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "w")
	harness.Must(t, os.MkdirAll(filepath.Join(dir, "private", "deep"), 0o755))
	harness.Must(t, os.MkdirAll(filepath.Join(dir, "empty"), 0o755))
	harness.Must(t, os.MkdirAll(filepath.Join(dir, "readonly"), 0o755))
	for name, mode := range map[string]os.FileMode{
		"script": 0o755, "secret": 0o600, "plain": 0o644, "private/deep/f": 0o644, "readonly/f": 0o444, "odd\nname * é": 0o644,
	} {
		harness.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(name), mode))
	}
	harness.Must(t, os.WriteFile(filepath.Join(dir, "large"), []byte(strings.Repeat("0123456789abcdef", 100_000)), 0o711))
	for name, target := range map[string]string{"loop": ".", "dangling": "nowhere", "out": "/etc/passwd", "private/up": "../script"} {
		harness.Must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	old := time.Date(2001, 2, 3, 4, 5, 6, 0, time.Local)
	for _, name := range []string{"script", "private/deep/f", "private/deep", "private", "readonly", "empty", "."} {
		harness.Must(t, os.Chtimes(filepath.Join(dir, name), old, old))
	}
	harness.Must(t, os.Chmod(filepath.Join(dir, "private"), 0o700))
	harness.Must(t, os.Chmod(filepath.Join(dir, "readonly"), 0o555))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "readonly"), 0o755) })
	return dir
}

// TestCopiesOfTrees: a copy preserves permissions, links and empty directories, and with -p times.
func TestCopiesOfTrees(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	_, url := harness.Server(t)
	source, dir := sampleTree(t), t.TempDir()
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", dir).Run() })
	harness.Must(t, os.Mkdir(dir+"/again", 0o755))
	for _, tt := range []struct {
		name  string
		args  []string
		times bool
	}{
		{"up", []string{"-r", source, ":" + dir + "/up"}, false},
		{"down", []string{"-r", ":" + source, dir + "/down"}, false},
		{"upp", []string{"-rp", source, ":" + dir + "/upp"}, true},
		{"downp", []string{"-r", "-p", ":" + source, dir + "/downp"}, true},
		{"again/w", []string{"-r", source, ":" + dir + "/again/"}, false},
		{"again/w", []string{"-rp", "--exclude", "readonly", source, ":" + dir + "/again/"}, false}, // copies over the first copy
	} {
		_, errs, code := harness.Run(t, "", append([]string{"remote", "cp", "--url", url}, tt.args...)...)
		if code != 0 || errs != "" {
			t.Fatalf(`%q: got exit code %d, stderr %q; want exit code 0, stderr ""`, tt.args, code, errs)
		}
		if got, want := described(t, filepath.Join(dir, tt.name), tt.times), described(t, source, tt.times); got != want {
			t.Errorf("%q: %s\nwant %s", tt.args, got, want)
		}
		if out, err := exec.Command("diff", "-r", "--no-dereference", source, filepath.Join(dir, tt.name)).CombinedOutput(); err != nil {
			t.Errorf("%q: got %s, want no error", tt.args, out)
		}
	}
}

// TestCopiesGoOn: one odd entry is reported, and the rest is copied.
func TestCopiesGoOn(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	bothServers(t, copiesGoOn)
}

func copiesGoOn(t *testing.T, url string) {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "w")
	harness.Must(t, os.MkdirAll(filepath.Join(source, "d"), 0o755))
	for _, name := range []string{"a", "d/b", "z"} {
		harness.Must(t, os.WriteFile(filepath.Join(source, name), []byte(name), 0o644))
	}
	harness.Must(t, syscall.Mkfifo(filepath.Join(source, "d", "fifo"), 0o644))
	for _, args := range [][]string{{source, ":" + dir + "/up"}, {":" + source, dir + "/down"}} {
		_, errs, code := harness.Run(t, "", append([]string{"remote", "cp", "-r", "--url", url}, args...)...)
		if code != 1 || !strings.Contains(errs, "d/fifo: not copied: it is a device, a FIFO or a socket\n") ||
			!strings.HasSuffix(errs, "Error: 1 file was not copied, or not with all its attributes\n") {
			t.Errorf("%q: got exit code %d, stderr %q; want exit code 1, stderr with %q, stderr ending in %q", args, code, errs, "d/fifo: not copied: it is a device, a FIFO or a socket\n", "Error: 1 file was not copied, or not with all its attributes\n")
		}
		if got := contents(t, strings.TrimPrefix(args[1], ":")); got != "a=a d/ d/b=d/b z=z" {
			t.Errorf(`%q: got %s, want "a=a d/ d/b=d/b z=z"`, args, got)
		}
	}
	lossy := filepath.Join(source, "odd\xff")
	harness.Must(t, os.WriteFile(lossy, nil, 0o644))
	_, errs, code := harness.Run(t, "", "remote", "cp", "-r", "--url", url, ":"+source, dir+"/lossy")
	// An archive can contain any name. Requests to servers without archives can contain only UTF-8.
	want, failures := "a=a d/ d/b=d/b odd\xff= z=z", "Error: 1 file was not copied, or not with all its attributes\n"
	if strings.HasSuffix(t.Name(), "requests") {
		want, failures = "a=a d/ d/b=d/b z=z", "Error: 2 files were not copied, or not with all their attributes\n"
	}
	if got := contents(t, dir+"/lossy"); got != want || code != 1 || !strings.HasSuffix(errs, failures) {
		t.Errorf("got exit code %d, %q and %q; want 1 and %q", code, errs, got, want)
	}
	// Copy several sources, one of which does not exist.
	harness.Must(t, os.Mkdir(dir+"/into", 0o755))
	_, errs, code = harness.Run(t, "", "remote", "cp", "--url", url, source+"/a", source+"/none", source+"/z", ":"+dir+"/into")
	if got := contents(t, dir+"/into"); got != "a=a z=z" || code != 1 || strings.Count(errs, "\n") != 2 {
		t.Errorf("got exit code %d, stderr %q, %s; want \"a=a z=z\", exit code 1, strings.Count(errs, \"\\n\") 2", code, errs, got)
	}
}

// TestCopiesUpFollowNoLinks: a link below the server's target is not followed.
func TestCopiesUpFollowNoLinks(t *testing.T) {
	t.Parallel()
	bothServers(t, copiesUpFollowNoLinks)
}

func copiesUpFollowNoLinks(t *testing.T, url string) {
	t.Helper()
	dir := t.TempDir()
	source, elsewhere := filepath.Join(dir, "w"), filepath.Join(dir, "elsewhere")
	harness.Must(t, os.MkdirAll(filepath.Join(source, "sub"), 0o755))
	harness.Must(t, os.Mkdir(elsewhere, 0o755))
	harness.Must(t, os.WriteFile(filepath.Join(source, "sub", "small"), []byte("x"), 0o644))
	harness.Must(t, os.WriteFile(filepath.Join(source, "large"), make([]byte, 1<<20), 0o644))
	for name, link := range map[string]string{"top": "w", "directory": "w/sub", "small": "w/sub/small", "large": "w/large"} {
		target := filepath.Join(dir, name)
		harness.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(target, link)), 0o755))
		harness.Must(t, os.Symlink(elsewhere, filepath.Join(target, link)))
		_, errs, code := harness.Run(t, "", "remote", "cp", "-r", "--url", url, source, ":"+target)
		if code != 1 || !strings.Contains(errs, "symbolic link") {
			t.Errorf(`%s: got exit code %d, stderr %q; want exit code 1, stderr with "symbolic link"`, name, code, errs)
		}
		if got := contents(t, elsewhere); got != "" {
			t.Fatalf("%s: %s was written", name, got)
		}
	}
	// A link at the target itself is followed, because the user has named it.
	harness.Must(t, os.Symlink(elsewhere, filepath.Join(dir, "chosen")))
	if _, errs, code := harness.Run(t, "", "remote", "cp", "-r", "--url", url, source, ":"+dir+"/chosen"); code != 0 {
		t.Errorf("got exit code %d, stderr %q; want exit code 0", code, errs)
	}
	if _, err := os.Stat(elsewhere + "/w/sub/small"); err != nil {
		t.Error(err)
	}
}

// TestLinksAsTargetsOfFiles: in both directions, a link that the user named is followed, and a link in a directory that the
// user named is not. With Codex CLI's servers too.
func TestLinksAsTargetsOfFiles(t *testing.T) {
	t.Parallel()
	bothServers(t, linksAsTargetsOfFiles)
}

func linksAsTargetsOfFiles(t *testing.T, url string) {
	t.Helper()
	for _, tt := range []struct {
		name, link, target string // the link leads to elsewhere; target is the operand
		followed           bool
	}{
		{"named, to a file", "named", "named", true},
		{"named, through another link", "chain", "chain", true},
		{"in a named directory", "dir/file", "dir", false},
		{"in a named directory, with a slash", "dir/file", "dir/", false},
	} {
		for _, size := range []int{10, 1 << 20} {
			for _, up := range []bool{true, false} {
				dir := t.TempDir()
				source, elsewhere, contents := filepath.Join(dir, "file"), filepath.Join(dir, "elsewhere"), strings.Repeat("x", size)
				harness.Must(t, os.WriteFile(source, []byte(contents), 0o644))
				harness.Must(t, os.Mkdir(dir+"/dir", 0o755))
				to := elsewhere
				harness.Must(t, os.WriteFile(elsewhere, nil, 0o644))
				if tt.link == "chain" {
					harness.Must(t, os.Symlink("elsewhere", dir+"/between"))
					to = "between"
				}
				harness.Must(t, os.Symlink(to, filepath.Join(dir, tt.link)))
				args := []string{":" + source, dir + "/" + tt.target}
				if up {
					args = []string{source, ":" + dir + "/" + tt.target}
				}
				_, errs, code := harness.Run(t, "", append([]string{"remote", "cp", "-q", "--url", url}, args...)...)
				written, _ := os.ReadFile(elsewhere)
				st, err := os.Lstat(filepath.Join(dir, tt.link))
				harness.Must(t, err)
				if (code == 0) != tt.followed || (string(written) == contents) != tt.followed || st.Mode()&os.ModeSymlink == 0 {
					t.Errorf("%s, up %v, %d bytes: got exit code %d, %q, %d bytes behind the link %v; want it followed: %v", tt.name, up, size, code, errs, len(written), st.Mode(), tt.followed)
				}
				if !tt.followed && !strings.Contains(errs, "a symbolic link exists here, which is not followed") {
					t.Errorf("%s, up %v: got %q, want the reason", tt.name, up, errs)
				}
			}
		}
	}
}

// TestLinksThatLeadNowhereAsTargets: in both directions, such a link is refused, as by cp.
func TestLinksThatLeadNowhereAsTargets(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	dir := t.TempDir()
	source, link := dir+"/file", dir+"/link"
	harness.Must(t, os.WriteFile(source, nil, 0o644))
	harness.Must(t, os.Symlink("elsewhere", link))
	for _, args := range [][]string{{source, ":" + link}, {":" + source, link}} {
		_, errs, code := harness.Run(t, "", append([]string{"remote", "cp", "--url", url}, args...)...)
		if code != 1 || !strings.Contains(errs, link+"` is a symbolic link that leads nowhere") && !strings.Contains(errs, link+" is a symbolic link that leads nowhere") {
			t.Errorf("cp %q: got exit code %d, %q; want an error about the link", args, code, errs)
		}
		if _, err := os.Lstat(dir + "/elsewhere"); err == nil {
			t.Fatalf("cp %q wrote the missing file", args)
		}
	}
}

func TestCopiesByPatterns(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	dir := t.TempDir()
	for _, name := range []string{"src/a.go", "src/b.go", "src/c.txt", "src/.hidden.go", "src/sub/d.go", "src/sub/deep/e.go", "src/node_modules/x.go", "lit/[a].go", "lit/a.go"} {
		harness.Must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		harness.Must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{":" + dir + "/src/*.go"}, "a.go= b.go="},
		{[]string{":" + dir + "/s?c/*/[a-d].go", ":" + dir + "/src/c.*"}, "c.txt= d.go="},
		{[]string{":" + dir + "/lit/[a].go"}, "[a].go="},
		{[]string{":" + dir + "/src/.h*"}, ".hidden.go="},
		{[]string{"-r", "--exclude", "node_modules", "--exclude", "*.txt", "--exclude", "sub/deep", ":" + dir + "/src"},
			"src/ src/.hidden.go= src/a.go= src/b.go= src/sub/ src/sub/d.go="},
	} {
		target := t.TempDir()
		_, errs, code := harness.Run(t, "", append(append([]string{"remote", "cp", "--url", url}, tt.args...), target)...)
		if got := contents(t, target); got != tt.want || code != 0 {
			t.Errorf("%q: %d %q: %s, want %s", tt.args, code, errs, got, tt.want)
		}
	}
	target := t.TempDir()
	if _, errs, code := harness.Run(t, "", "remote", "cp", "-r", "--exclude", "sub", "--url", url, dir+"/src", ":"+target); code != 0 ||
		contents(t, target) != "src/ src/.hidden.go= src/a.go= src/b.go= src/c.txt= src/node_modules/ src/node_modules/x.go=" {
		t.Errorf("got exit code %d, stderr %q, contents(t, target) %s; want exit code 0, contents(t, target) %s", code, errs, contents(t, target), "src/ src/.hidden.go= src/a.go= src/b.go= src/c.txt= src/node_modules/ src/node_modules/x.go=")
	}
	for want, args := range map[string][]string{
		"no file of the server matches": {":" + dir + "/*.none", target},
		"is not a pattern":              {"--exclude", "[", ":" + dir, target},
	} {
		if _, errs, code := harness.Run(t, "", append([]string{"remote", "cp", "--url", url}, args...)...); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%q: got exit code %d, stderr %q; want exit code other than 0, stderr with %q", args, code, errs, want)
		}
	}
}

// TestCopiesOfManyFiles: a tree of a thousand files is copied completely.
func TestCopiesOfManyFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	bothServers(t, copiesOfManyFiles)
}

func copiesOfManyFiles(t *testing.T, url string) {
	t.Helper()
	dir := t.TempDir()
	for i := range 1000 {
		name := filepath.Join(dir, "w", fmt.Sprint(i%10), fmt.Sprint(i))
		harness.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		harness.Must(t, os.WriteFile(name, []byte(name), 0o644))
	}
	for _, args := range [][]string{{dir + "/w", ":" + dir + "/up"}, {":" + dir + "/w", dir + "/down"}} {
		if _, errs, code := harness.Run(t, "", append([]string{"remote", "cp", "-r", "--url", url}, args...)...); code != 0 {
			t.Fatalf("%q: got exit code %d, stderr %q; want exit code 0", args, code, errs)
		}
		if out, err := exec.Command("diff", "-r", dir+"/w", strings.TrimPrefix(args[1], ":")).CombinedOutput(); err != nil {
			t.Errorf("%q: got %s, want no error", args, out)
		}
	}
}
