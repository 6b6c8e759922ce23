package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// changesCase is a command that changes files below a directory. DIR in its arguments and messages
// stands for the path of the directory.
type changesCase struct {
	args, code string
	errs       string // expected beginnings of the lines of stderr, separated by |
	want       string // expected files afterwards, in the form of contents
}

// changes runs commands one after another.
func changes(t *testing.T, dir string, cases []changesCase) {
	t.Helper()
	_, url := harness.Server(t)
	for _, tt := range cases {
		words := strings.Fields(strings.ReplaceAll(tt.args, "DIR", dir))
		args := append([]string{"remote", words[0], "--url", url}, words[1:]...)
		out, errs, code := harness.Run(t, "", args...)
		if got := contents(t, dir); got != tt.want || out != "" || (code == 0) != (tt.code == "") || code > 1 {
			t.Fatalf("%q: %d %q, %q: %s, want %s", args, code, out, errs, got, tt.want)
		}
		lines := strings.Split(strings.TrimSuffix(errs, "\n"), "\n")
		wanted := strings.Split(strings.ReplaceAll(tt.errs, "DIR", dir), "|")
		if len(lines) != len(wanted) {
			t.Errorf("%q: %q, want %q", args, errs, wanted)
			continue
		}
		for i, line := range lines {
			if !strings.HasPrefix(line, wanted[i]) || wanted[i] == "" && line != "" {
				t.Errorf("%q: %q, want %q", args, line, wanted[i])
			}
		}
	}
}

// TestRemoteRemove removes the named paths, but not the targets of links.
func TestRemoteRemove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	harness.Must(t, os.MkdirAll(file("d/e"), 0o755))
	for _, name := range []string{"a", "b1", "b2", "d/f", ":c"} {
		harness.Must(t, os.WriteFile(file(name), nil, 0o644))
	}
	harness.Must(t, os.Symlink("d", file("l")))
	harness.Must(t, os.Symlink("nowhere", file("n")))
	changes(t, dir, []changesCase{
		{"rm DIR/no", "1", "Error: remove DIR/no: no such file or directory", ":c= a= b1= b2= d/ d/e/ d/f= l=d n=nowhere"},
		{"rm -f DIR/no DIR/x*", "", "", ":c= a= b1= b2= d/ d/e/ d/f= l=d n=nowhere"},
		{"rm DIR/x*", "1", "Error: remove DIR/x*: no file of the server matches", ":c= a= b1= b2= d/ d/e/ d/f= l=d n=nowhere"},
		{"rm DIR/d", "1", "Error: remove DIR/d: it is a directory; remove it and all that is below it with -r", ":c= a= b1= b2= d/ d/e/ d/f= l=d n=nowhere"},
		{"rm -r DIR/..", "1", "Error: remove DIR/..: this may be", ":c= a= b1= b2= d/ d/e/ d/f= l=d n=nowhere"},
		{"rm -r /", "1", "Error: remove /: this is the root directory of the server", ":c= a= b1= b2= d/ d/e/ d/f= l=d n=nowhere"},
		{"rm -r :DIR/l DIR/n", "", "", ":c= a= b1= b2= d/ d/e/ d/f="},
		{"rm DIR/a DIR/d DIR/b?", "1", "codex: remove DIR/d: it is a directory|Error: 1 of 4 were not removed", ":c= d/ d/e/ d/f="},
		{"rm DIR/?c", "", "", "d/ d/e/ d/f="},
		{"rm -rf DIR/d", "", "", ""},
	})
}

// TestRemoteMakeDirectoriesAndLinks creates the named paths.
func TestRemoteMakeDirectoriesAndLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	changes(t, dir, []changesCase{
		{"mkdir DIR/a :DIR/b", "", "", "a/ b/"},
		{"mkdir DIR/a DIR/c/d", "1", "codex: make DIR/a: file exists|codex: make DIR/c/d: no such file or directory|Error: 2 of 2 were not made", "a/ b/"},
		{"mkdir -p DIR/a DIR/c/d", "", "", "a/ b/ c/ c/d/"},
		{"ln -s ../x:y DIR/l", "", "", "a/ b/ c/ c/d/ l=../x:y"},
		{"ln -s z DIR/l", "1", "Error: make the link DIR/l: file exists", "a/ b/ c/ c/d/ l=../x:y"},
		{"ln -sf :c DIR/l", "", "", "a/ b/ c/ c/d/ l=c"},
		{"ln -s z/q DIR/l", "", "", "a/ b/ c/ c/d/ c/q=z/q l=c"},
		{"ln -sfn z/q DIR/l", "", "", "a/ b/ c/ c/d/ c/q=z/q l=z/q"},
		{"ln -s .. DIR/a", "1", "Error: make the link DIR/a: the link needs a name, because .. has none", "a/ b/ c/ c/d/ c/q=z/q l=z/q"},
		{"ln -sf z DIR/c/d/no/x", "1", "Error: make the link DIR/c/d/no/x: no such file or directory", "a/ b/ c/ c/d/ c/q=z/q l=z/q"},
	})
}

// TestReportsAreInPlainWords: a message about one of many files has the same words as the error
// about a single file.
func TestReportsAreInPlainWords(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	dir := t.TempDir()
	harness.Must(t, os.MkdirAll(filepath.Join(dir, "from"), 0o755))
	harness.Must(t, os.WriteFile(filepath.Join(dir, "from", "f"), nil, 0o644))
	harness.Must(t, os.MkdirAll(filepath.Join(dir, "to", "from", "f", "g"), 0o755))
	_, errs, code := harness.Run(t, "", "remote", "cp", "--url", url, "-q", "-r", filepath.Join(dir, "from"), ":"+filepath.Join(dir, "to"))
	want := "codex: " + filepath.Join(dir, "from", "f") + ": a directory exists here, which is not replaced\n" +
		"Error: 1 file was not copied, or not with all its attributes\n"
	if code != 1 || errs != want {
		t.Errorf("%d %q, want %q", code, errs, want)
	}
}

// TestRemoteEdit checks that edit writes the file that the editor has changed, and that no change is lost.
func TestRemoteEdit(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	dir, temp := t.TempDir(), t.TempDir()
	name := filepath.Join(dir, "a file")
	harness.Must(t, os.WriteFile(name, []byte("one\n"), 0o640))
	env := func(editor string) []string {
		return []string{"TMPDIR=" + temp, "VISUAL=", "EDITOR=" + editor, "PATH=" + os.Getenv("PATH")}
	}
	for _, tt := range []struct {
		what, editor, path string
		code               int
		errs, want, kept   string
	}{
		{"a change, with an editor that has options", `sh -c 'echo two >> "$1"' --`, name, 0, "", "one\ntwo\n", ""},
		{"no change", "true", ":" + name, 0, "codex: nothing was changed\n", "one\ntwo\n", ""},
		{"an editor that fails", "false", name, 1, "the editor false failed, and nothing was written: exit status 1\n", "one\ntwo\n", ""},
		{"an editor that fails after a change", `sh -c 'echo 3 >> "$1"; exit 1' --`, name, 1, "the copy with your changes is " + temp, "one\ntwo\n", "one\ntwo\n3\n"},
		{"a change of both", "sh -c 'echo 4 >> \"$1\"; echo 5 > \"" + name + "\"' --", name, 1, "it was changed on the server while you edited it; the copy with your changes is " + temp, "5\n", "one\ntwo\n4\n"},
		{"a file that is removed meanwhile", "sh -c 'echo 6 >> \"$1\"; rm \"" + name + "\"' --", name, 1, "it was removed from the server while you edited it; the copy", "", "5\n6\n"},
		{"a new file", `sh -c 'echo 7 > "$1"' --`, name, 0, "", "7\n", ""},
		{"a directory", "true", dir, 1, "it is not a regular file\n", "7\n", ""},
	} {
		_, errs, code := harness.RunWith(t, env(tt.editor), t.TempDir(), "", "remote", "edit", "--url", url, tt.path)
		data, _ := os.ReadFile(name)
		if code != tt.code || !strings.Contains(errs, tt.errs) || tt.errs == "" && errs != "" || string(data) != tt.want {
			t.Errorf("%s: %d %q, has %q", tt.what, code, errs, data)
		}
		copies, err := filepath.Glob(temp + "/*/*")
		harness.Must(t, err)
		var kept []byte
		for _, c := range copies {
			kept, err = os.ReadFile(c)
			harness.Must(t, err)
			if st, err := os.Stat(c); err != nil || st.Mode().Perm() != 0o600 || filepath.Base(c) != "a file" {
				t.Errorf(`%s: got c %s, st %v, error %v; want no error, st.Mode().Perm() 0o600, filepath.Base(c) "a file"`, tt.what, c, st, err)
			}
			harness.Must(t, os.RemoveAll(filepath.Dir(c)))
		}
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 || string(kept) != tt.kept {
			t.Errorf("%s: kept %q, left %v, %v", tt.what, kept, left, err)
		}
	}
}
