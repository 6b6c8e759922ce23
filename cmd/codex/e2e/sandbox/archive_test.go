package sandbox

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
)

// TestConfinedArchives reads and extracts archives in a sandbox. Hidden and protected paths are the
// same as for other file requests, and no file outside of the directory is written.
func TestConfinedArchives(t *testing.T) {
	t.Parallel()
	onBoth(t, func(c *confined) {
		client, err := execclient.DialWebSocket(t.Context(), c.url, execclient.Options{})
		harness.Must(t, err)
		defer client.Close()
		sandbox, err := json.Marshal(c.usual())
		harness.Must(t, err)
		files := client.FS().WithSandbox(sandbox)
		if names := c.archived(files); !slices.Contains(names, "f") || slices.Contains(names, "secret") {
			t.Errorf("the archive has %q", names)
		}

		text := archiveOf(t, []tar.Header{
			{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755},
			{Name: "new/", Typeflag: tar.TypeDir, Mode: 0o755},
			{Name: "new/file", Typeflag: tar.TypeReg, Mode: 0o644, Size: 3},
			{Name: "out", Typeflag: tar.TypeSymlink, Linkname: "..", Mode: 0o777},
			{Name: "out/outside", Typeflag: tar.TypeReg, Mode: 0o644, Size: 3},
			{Name: "../outside", Typeflag: tar.TypeReg, Mode: 0o644, Size: 3},
			{Name: "f", Typeflag: tar.TypeReg, Mode: 0o644, Size: 3},
		})
		failed, err := c.extract(files, c.ws, text)
		if err != nil || !slices.Equal(failed, []string{"out/outside", "../outside"}) {
			t.Errorf(`got error %v, failed %q; want no error, failed []string{"out/outside", "../outside"}`, err, failed)
		}
		for name, want := range map[string]string{"ws/new/file": "abc", "ws/f": "abc", "outside": "outside"} {
			if data, err := os.ReadFile(filepath.Join(c.dir, name)); err != nil || string(data) != want {
				t.Errorf("%s: got data %q, error %v; want no error, data %q", name, data, err, want)
			}
		}

		// If the sandbox does not permit writing, no file is written.
		if failed, err := c.extract(files, c.dir, text); err == nil && !slices.Contains(failed, "f") {
			t.Errorf("outside of the workspace: %q", failed)
		}
		if _, err := os.Lstat(filepath.Join(c.dir, "new")); err == nil {
			t.Error("it was written outside of the workspace")
		}
		if _, err := c.extract(files, "/proc/self", text); err == nil || !strings.Contains(err.Error(), "/proc") {
			t.Errorf("below /proc: %v", err)
		}
		readOnly := client.FS().WithSandbox(execclient.ReadOnlySandbox())
		if failed, err := c.extract(readOnly, c.ws, text); err == nil && !slices.Contains(failed, "new/file") {
			t.Errorf("read-only: %q", failed)
		}
		// An aborted archive leaves no temporary file.
		w, err := files.CreateArchive(t.Context(), c.ws, execclient.ExtractOptions{Failed: func(string, string) {}})
		harness.Must(t, err)
		half := make([]byte, 2<<20)
		copy(half, archiveOf(t, []tar.Header{{Name: "half", Typeflag: tar.TypeReg, Mode: 0o644, Size: 8 << 20}})[:512])
		if _, err := w.Write(half); err != nil {
			t.Error(err)
		}
		w.Abort()
		c.until("the temporary file is gone", func() bool {
			left, _ := filepath.Glob(c.ws + "/.*.tmp")
			return len(left) == 0
		})
		if _, err := os.Lstat(c.ws + "/half"); err == nil {
			t.Error("half of a file got its name")
		}
	})
}

// archived returns the names in the archive of the workspace.
func (c *confined) archived(files *execclient.FS) []string {
	c.t.Helper()
	r, err := files.OpenArchive(c.t.Context(), c.ws, execclient.ArchiveOptions{})
	harness.Must(c.t, err)
	defer r.Close()
	var names []string
	for list := tar.NewReader(r); ; {
		h, err := list.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		harness.Must(c.t, err)
		if h.Typeflag == tar.TypeReg { // the file was not reported as a failure
			names = append(names, h.Name)
		}
	}
}

// extract extracts an archive into a directory, and returns the names that the server refused.
func (c *confined) extract(files *execclient.FS, at string, text []byte) (failed []string, err error) {
	c.t.Helper()
	w, err := files.CreateArchive(c.t.Context(), at, execclient.ExtractOptions{
		Failed: func(path, _ string) { failed = append(failed, path) },
	})
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		w.Abort()
		return failed, err
	}
	return failed, w.Close()
}

// archiveOf returns an archive whose files contain the first letters of the alphabet.
func archiveOf(t *testing.T, headers []tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range headers {
		harness.Must(t, w.WriteHeader(&headers[i]))
		if headers[i].Size == 3 {
			_, err := w.Write([]byte("abc"))
			harness.Must(t, err)
		}
	}
	_ = w.Close() // Close returns an error if a file is incomplete
	return b.Bytes()
}
