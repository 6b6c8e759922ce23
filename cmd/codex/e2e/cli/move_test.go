package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
)

func TestRemoteMove(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	harness.Must(t, os.Mkdir(file("d"), 0o755))
	for _, name := range []string{"a", "b", "c", "d/a"} {
		harness.Must(t, os.WriteFile(file(name), []byte(name), 0o644))
	}
	harness.Must(t, os.Symlink("c", file("l")))
	for _, tt := range []struct {
		args []string
		want string // expected files afterwards, with their contents
	}{
		{[]string{file("a"), file("new")}, "b=b c=c d/ d/a=d/a l=c new=a"},
		{[]string{":" + file("new"), ":" + file("b")}, "b=a c=c d/ d/a=d/a l=c"},
		{[]string{"-n", file("b"), file("a")}, "a=a c=c d/ d/a=d/a l=c"},
		{[]string{file("a"), file("d")}, "c=c d/ d/a=a l=c"},
		{[]string{file("l"), file("c"), file("d") + "/"}, "d/ d/a=a d/c=c d/l=c"},
		{[]string{file("d"), file("e")}, "e/ e/a=a e/c=c e/l=c"},
		{[]string{"file://" + file("e/a"), file("e/l")}, "e/ e/c=c e/l=a"},
	} {
		out, errs, code := harness.Run(t, "", append([]string{"remote", "mv", "--url", url}, tt.args...)...)
		if got := contents(t, dir); got != tt.want || code != 0 || out != "" || errs != "" {
			t.Fatalf("%q: %d %q, %q: %s, want %s", tt.args, code, out, errs, got, tt.want)
		}
	}
	for _, tt := range []struct {
		args []string
		want string // expected beginning of the error
	}{
		{[]string{file("no"), file("new")}, "move " + file("no") + ": no such file or directory\n"},
		{[]string{":" + file("e/c"), file("no/new")}, "move :" + file("e/c") + ": " + file("no/new") + ": no such file or directory\n"},
		{[]string{"-n", file("e/c"), file("e/l")}, "move " + file("e/c") + ": " + file("e/l") + ": file exists\n"},
		{[]string{file("e/c"), file("new") + "/"}, "the target " + file("new") + "/ is not a directory on the server\n"},
		{[]string{file("e/c"), file("e/l"), file("new")}, "the target " + file("new") + " is not a directory on the server\n"},
		{[]string{file("e"), file("e")}, "move " + file("e") + ": a directory cannot be moved into itself: " + file("e") + "\n"},
	} {
		out, errs, code := harness.Run(t, "", append([]string{"remote", "mv", "--url", url}, tt.args...)...)
		if code != 1 || out != "" || !strings.HasPrefix(errs, "Error: "+tt.want) || contents(t, dir) != "e/ e/c=c e/l=a" {
			t.Errorf(`%q: got exit code %d, stdout %q, stderr %q; want exit code 1, stdout "", stderr beginning with %q, contents(t, dir) "e/ e/c=c e/l=a"`, tt.args, code, out, errs, "Error: "+tt.want)
		}
	}
}

// TestRemoteMoveToAnotherFileSystem: where a rename is impossible, the error suggests a
// command that works.
func TestRemoteMoveToAnotherFileSystem(t *testing.T) {
	t.Parallel()
	shm, err := os.MkdirTemp("/dev/shm", "codex")
	testutil.Need(t, "/dev/shm", err, fs.ErrNotExist, fs.ErrPermission)
	defer os.RemoveAll(shm)
	_, url := harness.Server(t)
	name := filepath.Join(t.TempDir(), "a file")
	harness.Must(t, os.WriteFile(name, nil, 0o644))
	if err := os.Rename(name, shm+"/f"); err == nil {
		t.Skip("/dev/shm is the same file system as the temporary directory")
	} else if !errors.Is(err, syscall.EXDEV) {
		t.Fatal(err)
	}
	_, errs, code := harness.Run(t, "", "remote", "mv", "--url", url, "-n", name, shm+"/f")
	if code != 1 || !strings.Contains(errs, "on different file systems") ||
		!strings.Contains(errs, "codex remote run -- mv -n '"+name+"' "+shm+"/f\n") || strings.Contains(errs, "os error") {
		t.Errorf(`got exit code %d, stderr %q; want exit code 1, stderr with "on different file systems", stderr with %q, stderr without "os error"`, code, errs, "codex remote run -- mv -n '"+name+"' "+shm+"/f\n")
	}
}

// contents lists the directories and files of a directory, with the contents of the files.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	harness.Must(t, filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		below := strings.TrimPrefix(strings.TrimPrefix(name, dir), "/")
		switch {
		case errors.Is(err, fs.ErrNotExist): // the file was removed meanwhile
			return nil
		case err != nil || below == "":
			return err
		case d.IsDir():
			all = append(all, below+"/")
			return nil
		}
		data, err := os.ReadFile(name)
		if d.Type()&os.ModeSymlink != 0 { // write the target of the link, or its location
			data, err = nil, nil
			if target, _ := os.Readlink(name); target != "" {
				data = []byte(target)
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		all = append(all, below+"="+string(data))
		return err
	}))
	return strings.Join(all, " ")
}
