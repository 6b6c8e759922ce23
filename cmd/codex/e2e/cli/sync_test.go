package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
)

// syncs runs a test of sync in both directions. At the start, the source is empty, and the target
// does not exist. run synchronizes them.
func syncs(t *testing.T, test func(t *testing.T, source, target string, run func(options ...string) (out, errs string, code int))) {
	_, url := harness.Server(t)
	for _, direction := range []string{"up", "down"} {
		t.Run(direction, func(t *testing.T) {
			dir := t.TempDir()
			source, target := dir+"/source", dir+"/target"
			harness.Must(t, os.Mkdir(source, 0o755))
			from, to := source, ":"+target
			if direction == "down" {
				from, to = ":"+source, target
			}
			test(t, source, target, func(options ...string) (string, string, int) {
				return harness.Run(t, "", append([]string{"remote", "sync", "--url", url, from, to}, options...)...)
			})
		})
	}
}

func writeText(t *testing.T, name, text string) {
	t.Helper()
	harness.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	harness.Must(t, os.WriteFile(name, []byte(text), 0o644))
}

// TestSyncs: the target becomes equal to the source, and a second sync changes nothing.
func TestSyncs(t *testing.T) {
	t.Parallel()
	syncs(t, func(t *testing.T, source, target string, run func(...string) (string, string, int)) {
		harness.Must(t, os.RemoveAll(source))
		harness.Must(t, os.Rename(sampleTree(t), source))
		t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", source, target).Run() })
		if out, _, code := run("--dry-run"); code != 0 || !strings.Contains(out, "copy ") {
			t.Errorf(`got exit code %d, stdout %q; want exit code 0, stdout with "copy "`, code, out)
		}
		if _, err := os.Lstat(target); err == nil {
			t.Error("--dry-run has made the target")
		}
		if _, errs, code := run(); code != 0 || errs != "codex: 7 files copied, 1.5 MiB\n" {
			t.Fatalf(`got exit code %d, stderr %q; want exit code 0, and the number of files`, code, errs)
		}
		if _, errs, code := run(); code != 0 || errs != "codex: nothing has changed\n" {
			t.Errorf(`again: got exit code %d, stderr %q; want exit code 0, and that nothing has changed`, code, errs)
		}
		if _, errs, code := run("--quiet"); code != 0 || errs != "" {
			t.Errorf(`quietly: got exit code %d, stderr %q; want exit code 0, stderr ""`, code, errs)
		}
		if got, want := described(t, target, true), described(t, source, true); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
		if out, _, code := run("-n", "--delete"); code != 0 || out != "" {
			t.Errorf("there is something to do again: %d %q", code, out)
		}
		// Change the time of one file, the content of one with the same size, and a link.
		writeText(t, source+"/plain", "PLAIN")
		writeText(t, source+"/private/new/f", "x")
		harness.Must(t, os.Remove(source+"/loop"))
		harness.Must(t, os.Symlink("other", source+"/loop"))
		if out, _, _ := run("-n"); strings.Count(out, "\n") != 3 || !strings.Contains(out, "/plain\n") || !strings.Contains(out, "/new/f\n") ||
			!strings.Contains(out, "/loop\n") {
			t.Errorf("got %q; want strings.Count(out, \"\\n\") 3, a text with %q, a text with %q, a text with %q", out, "/plain\n", "/new/f\n", "/loop\n")
		}
		if _, errs, code := run(); code != 0 || errs != "codex: 2 files copied, 6 B\n" {
			t.Fatalf(`got exit code %d, stderr %q; want exit code 0, and two files`, code, errs)
		}
		if got, want := described(t, target, true), described(t, source, true); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	})
}

// TestSyncChecksums: with checksums, sync compares contents and not times.
func TestSyncChecksums(t *testing.T) {
	t.Parallel()
	syncs(t, func(t *testing.T, source, target string, run func(...string) (string, string, int)) {
		old := time.Unix(1e9, 0)
		for _, dir := range []string{source, target} {
			writeText(t, dir+"/same", "text")
			writeText(t, dir+"/other", filepath.Base(dir)) // of the same length
			harness.Must(t, os.Chtimes(dir+"/other", old, old))
		}
		if _, errs, code := run(); code != 0 || contents(t, target) != "other=target same=text" {
			t.Errorf(`got exit code %d, stderr %q, contents(t, target) %s; want exit code 0, contents(t, target) "other=target same=text"`, code, errs, contents(t, target))
		}
		if _, errs, code := run("--checksum"); code != 0 || contents(t, target) != "other=source same=text" {
			t.Errorf(`got exit code %d, stderr %q, contents(t, target) %s; want exit code 0, contents(t, target) "other=source same=text"`, code, errs, contents(t, target))
		}
	})
}

// TestSyncDeletes: --delete removes files that the source does not have, except omitted files. It
// removes nothing if the source was not read completely.
func TestSyncDeletes(t *testing.T) {
	t.Parallel()
	syncs(t, func(t *testing.T, source, target string, run func(...string) (string, string, int)) {
		writeText(t, source+"/a", "a")
		writeText(t, source+"/kind/f", "f")
		writeText(t, target+"/old", "")
		writeText(t, target+"/dir/deep/f", "")
		writeText(t, target+"/dir/keep.o", "")
		writeText(t, target+"/kind", "")
		harness.Must(t, os.Symlink("/etc", target+"/link"))
		_, errs, code := run("--exclude", "*.o")
		if got := contents(t, target); code != 1 || !strings.Contains(errs, "not replaced") || !strings.Contains(got, "old=") {
			t.Errorf(`got exit code %d, stderr %q, %s; want exit code 1, stderr with "not replaced", a text with "old="`, code, errs, got)
		}
		harness.Must(t, exec.Command("mkfifo", source+"/fifo").Run())
		_, errs, code = run("--delete", "--exclude", "*.o")
		if got := contents(t, target); code != 1 || !strings.Contains(errs, "nothing is removed") || !strings.Contains(got, "old=") {
			t.Errorf(`got exit code %d, stderr %q, %s; want exit code 1, stderr with "nothing is removed", a text with "old="`, code, errs, got)
		}
		harness.Must(t, os.Remove(source+"/fifo"))
		_, errs, code = run("--delete", "--exclude", "*.o")
		if got := contents(t, target); code != 0 || got != "a=a dir/ dir/keep.o= kind/ kind/f=f" {
			t.Errorf(`got exit code %d, stderr %q, %s; want exit code 0, "a=a dir/ dir/keep.o= kind/ kind/f=f"`, code, errs, got)
		}
		_, errs, code = run("--delete")
		if got := contents(t, target); code != 0 || got != "a=a kind/ kind/f=f" {
			t.Errorf(`got exit code %d, stderr %q, %s; want exit code 0, "a=a kind/ kind/f=f"`, code, errs, got)
		}
	})
}

// TestSyncDeletesNothingElsewhere: a directory of the target becomes a link after it was listed.
// The removal of a link, a file or a directory does not follow that link.
func TestSyncDeletesNothingElsewhere(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	dir := t.TempDir()
	harness.Must(t, os.MkdirAll(dir+"/source/d", 0o755))
	for _, in := range []string{dir + "/target/d", dir + "/outside"} {
		writeText(t, in+"/f", "f")
		writeText(t, in+"/sub/g", "g")
		harness.Must(t, os.Symlink("f", in+"/l"))
	}
	var once sync.Once
	url = between(t, url, nil, func(b []byte) []byte {
		if bytes.Contains(b, []byte(`"eof":true`)) { // the end of the list
			once.Do(func() {
				harness.Must(t, os.Rename(dir+"/target/d", dir+"/was"))
				harness.Must(t, os.Symlink(dir+"/outside", dir+"/target/d"))
			})
		}
		return b
	})
	_, errs, code := harness.Run(t, "", "remote", "sync", "--delete", "--exclude", "x", "--url", url, dir+"/source", ":"+dir+"/target")
	if got := contents(t, dir+"/outside"); got != "f=f l=f sub/ sub/g=g" || code != 1 || strings.Count(errs, "path contains a symbolic link") < 3 {
		t.Errorf(`got exit code %d, stderr %q, %s; want "f=f l=f sub/ sub/g=g", exit code 1, strings.Count(errs, "path contains a symbolic link") at least 3`, code, errs, got)
	}
}

// TestSyncGit: files that git ignores are neither copied nor removed.
func TestSyncGit(t *testing.T) {
	t.Parallel()
	syncs(t, func(t *testing.T, source, target string, run func(...string) (string, string, int)) {
		for name, text := range map[string]string{
			".gitignore": "*.log\n/build/\n!keep.log\n", "a.log": "", "keep.log": "k", "build/x": "", "sub/build/y": "y", "sub/.gitignore": "z\n",
			"sub/z": "", ".git/HEAD": "ref",
		} {
			writeText(t, source+"/"+name, text)
		}
		writeText(t, target+"/build/mine", "m")
		writeText(t, target+"/gone", "")
		_, errs, code := run("--git", "--delete")
		got := contents(t, target)
		want := ".gitignore=*.log\n/build/\n!keep.log\n build/ build/mine=m keep.log=k sub/ sub/.gitignore=z\n sub/build/ sub/build/y=y"
		if code != 0 || got != want {
			t.Errorf("%d %q: %q, want %q", code, errs, got, want)
		}
	})
}

// TestSyncMistakes checks error messages.
func TestSyncMistakes(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	dir := t.TempDir()
	writeText(t, dir+"/f", "")
	for _, tt := range []struct {
		url, source, target string
		want                string
	}{
		{url, dir + "/f", ":" + dir + "/x", "it is not a directory"},
		{url, ":" + dir + "/f", dir + "/x", "it is not a directory"},
		{url, dir, ":" + dir + "/f", "it is not a directory"},
		{url, ":" + dir + "/none", dir + "/x", "no such file"},
		{disguised(t, url, "fs/openArchive"), dir, ":" + dir + "/x", "this server cannot list a tree"},
	} {
		if _, errs, code := harness.Run(t, "", "remote", "sync", "--url", tt.url, tt.source, tt.target); code != 1 || !strings.Contains(errs, tt.want) {
			t.Errorf("%s %s: got exit code %d, stderr %q; want exit code 1, stderr with %q", tt.source, tt.target, code, errs, tt.want)
		}
	}
}

// TestCopyKeepsHoles copies a sparse file alone, in both directions.
func TestCopyKeepsHoles(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	dir := t.TempDir()
	const size = 64 << 20
	writeText(t, dir+"/f", "begin")
	harness.Must(t, os.Truncate(dir+"/f", size))
	for _, args := range [][]string{{dir + "/f", ":" + dir + "/up"}, {":" + dir + "/f", dir + "/down"}} {
		if _, errs, code := harness.Run(t, "", append([]string{"remote", "cp", "--url", url}, args...)...); code != 0 {
			t.Fatalf("got exit code %d, stderr %q", code, errs)
		}
	}
	if err := exec.Command("cmp", dir+"/f", dir+"/up").Run(); err != nil {
		t.Error("the upload differs:", err)
	}
	if err := exec.Command("cmp", dir+"/f", dir+"/down").Run(); err != nil {
		t.Error("the download differs:", err)
	}
	for _, name := range []string{"/up", "/down"} {
		st, err := os.Stat(dir + name)
		harness.Must(t, err)
		if blocks := st.Sys().(*syscall.Stat_t).Blocks; blocks*512 > 8<<20 {
			t.Errorf("%s takes %d blocks", name, blocks)
		}
	}
}

// TestListsSeveralPaths: ls takes patterns and several paths, and prints JSON; cat takes patterns.
func TestListsSeveralPaths(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	dir := t.TempDir()
	writeText(t, dir+"/a.txt", "A")
	writeText(t, dir+"/b.txt", "B")
	writeText(t, dir+"/sub/c", "C")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"ls", dir + "/*.txt"}, dir + "/a.txt\n" + dir + "/b.txt\n"},
		{[]string{"ls", dir + "/sub", dir + "/a.txt"}, dir + "/a.txt\n\n" + dir + "/sub:\nc\n"},
		{[]string{"cat", dir + "/?.txt"}, "AB"},
	} {
		out, errs, code := harness.Run(t, "", append([]string{"remote", "--url", url}, tt.args...)...)
		if out != tt.want || code != 0 {
			t.Errorf("%q: got exit code %d, stdout %q, stderr %q; want %q", tt.args, code, out, errs, tt.want)
		}
	}
	out, _, _ := harness.Run(t, "", "remote", "--url", url, "ls", "--json", dir+"/sub")
	if !strings.HasPrefix(out, `{"name":"c","kind":"file","size":1,"permissions":"0644","modified":"`) || strings.Count(out, "\n") != 1 {
		t.Errorf("ls --json prints %q", out)
	}
}
