package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// TestCopiesWriteIntoSpecialFiles: cp of a file onto a FIFO, a device or standard output writes
// into it, on both sides, as the system's cp does.
func TestCopiesWriteIntoSpecialFiles(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	dir := t.TempDir()
	file, fifo := filepath.Join(dir, "file"), filepath.Join(dir, "into", "file")
	harness.Must(t, os.WriteFile(file, []byte("contents"), 0o644))
	harness.Must(t, os.Mkdir(filepath.Join(dir, "into"), 0o755))
	harness.Must(t, syscall.Mkfifo(fifo, 0o644))
	harness.Must(t, os.Symlink("into/file", filepath.Join(dir, "link")))
	for name, args := range map[string][]string{
		"a local FIFO":                   {":" + file, fifo},
		"a local link to a FIFO":         {":" + file, filepath.Join(dir, "link")},
		"a FIFO in a local directory":    {":" + file, filepath.Join(dir, "into")},
		"a FIFO of the server":           {file, ":" + fifo},
		"a FIFO in a server's directory": {file, ":" + filepath.Join(dir, "into")},
	} {
		r, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		harness.Must(t, err)
		_, errs, code := harness.Run(t, "", append([]string{"remote", "cp", "--url", url}, args...)...)
		got := make([]byte, 100)
		n, _ := r.Read(got)
		_ = r.Close()
		if code != 0 || string(got[:n]) != "contents" {
			t.Errorf("%s: %d %q, read %q", name, code, errs, got[:n])
		}
		if st, err := os.Lstat(fifo); err != nil || st.Mode().Type() != fs.ModeNamedPipe {
			t.Fatalf("%s: the FIFO became %v, %v", name, st, err)
		}
	}
	for _, args := range [][]string{{":" + file, "/dev/null"}, {file, ":/dev/null"}} {
		if _, errs, code := harness.Run(t, "", append([]string{"remote", "cp", "--url", url}, args...)...); code != 0 {
			t.Errorf("%q: got exit code %d, stderr %q; want exit code 0", args, code, errs)
		}
	}
	if st, err := os.Stat("/dev/null"); err != nil || st.Mode()&fs.ModeCharDevice == 0 {
		t.Fatalf("/dev/null became %v, %v", st, err)
	}
}

// TestCopiesStandardStreams copies to standard output and from standard input.
func TestCopiesStandardStreams(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	dir := t.TempDir()
	file, made := filepath.Join(dir, "file"), filepath.Join(dir, "made")
	harness.Must(t, os.WriteFile(file, []byte("contents"), 0o644))
	for _, target := range []string{"-", "/dev/stdout"} {
		if out, errs, code := harness.Run(t, "", "remote", "cp", "--url", url, ":"+file, ":"+file, target); out != "contentscontents" || code != 0 {
			t.Errorf(`%s: got exit code %d, stdout %q, stderr %q; want stdout "contentscontents", exit code 0`, target, code, out, errs)
		}
	}
	for _, source := range []string{"-", "/dev/stdin"} {
		_, errs, code := harness.Run(t, "input of "+source, "remote", "cp", "--url", url, source, ":"+made)
		if data, err := os.ReadFile(made); string(data) != "input of "+source || code != 0 {
			t.Errorf("%s: got exit code %d, stderr %q, data %q, error %v; want data %q, exit code 0", source, code, errs, data, err, "input of "+source)
		}
	}
	_, errs, code := harness.Run(t, "", "remote", "cp", "--url", url, "-", ":"+dir)
	if code != 1 || !strings.Contains(errs, "give the target's name too, as in :"+dir+"/NAME") {
		t.Errorf("got exit code %d, stderr %q; want exit code 1, stderr with %q", code, errs, "give the target's name too, as in :"+dir+"/NAME")
	}
}
