package remote

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/pkg/testutil"
)

// TestIgnoresTheSameAsGit compares the ignored paths with those of git itself.
func TestIgnoresTheSameAsGit(t *testing.T) {
	_, err := exec.LookPath("git")
	testutil.Need(t, "git", err, exec.ErrNotFound)
	files := map[string]string{
		"": "*.o\n!keep.o\n/top\nbuild/\na/*/c\n**/deep\ndocs/**\nx/**/y\n# no comment\n\\#hash\n\\!bang\nspace\\ \ntrail   \n[a-c]1\n[!x]9\nq?z\n" +
			"no[end\n*.[oa]x\n[[:digit:]]n\nfolder\\*\n\n!/build/keep\nsub/*\n!sub/in\n",
		"sub/in":  "!*.o\nlocal\n/only\n",
		"a/b":     "*\n!.gitignore\n",
		"weird-d": "foo**bar\n**\n!*/\n",
	}
	paths := []string{
		"x.o", "keep.o", "a/x.o", "a/keep.o", "top", "a/top", "build/x", "a/build/y", "a/q/c", "a/q/r/c", "deep", "u/v/deep/w", "docs/x", "docs/y/z",
		"x/y", "x/m/y", "x/m/n/y", "#hash", "!bang", "space ", "trail", "a1", "d1", "y9", "x9", "qaz", "q/z", "no[end", "e.ox", "5n", "n5", "folder*",
		"folderx", "build/keep", "sub/z", "sub/in/x.o", "sub/in/local", "sub/in/k/local", "sub/in/only", "sub/in/k/only", "a/b/r", "a/b/s/t",
		"weird-d/fooxbar", "weird-d/e/f", "plain", "plain.d/plain",
	}
	root := t.TempDir()
	run := func(args ...string) []byte {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		cmd.Stdin = strings.NewReader(strings.Join(paths, "\x00") + "\x00")
		out, _ := cmd.Output() // git exits with 1 if it ignores no path
		return out
	}
	run("init", "-q")
	var g ignored
	for folder, text := range files {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, folder, ".gitignore"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		g.add(folder, text)
	}
	for _, name := range paths {
		_ = os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755)
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := make(map[string]bool)
	for name := range bytes.SplitSeq(run("check-ignore", "-z", "--no-index", "--stdin"), []byte{0}) {
		want[string(name)] = true
	}
	if len(want) < 10 {
		t.Fatalf("git ignores %d files only", len(want))
	}
	for _, name := range paths {
		got := false
		for i, c := range name {
			if c == '/' && g.leavesOut(name[:i], true) {
				got = true
			}
		}
		if got = got || g.leavesOut(name, false); got != want[name] {
			t.Errorf("%q is left out: %v, by git: %v", name, got, want[name])
		}
	}
}

// TestGitFolderIsLeftOut: other spellings of .git are left out, too, because some file systems
// treat them as the same name.
func TestGitFolderIsLeftOut(t *testing.T) {
	var g ignored
	for name, want := range map[string]bool{".git": true, "a/.git": true, ".GIT": true, "a/.Git": true, ".gitx": false, "git": false} {
		if got := g.leavesOut(name, true); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}
