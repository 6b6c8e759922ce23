package fsops

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/files"
	"codex.internal/pkg/wire/pathuri"
	"golang.org/x/sys/unix"
)

func TestErrorCodes(t *testing.T) {
	_, relative := pathuri.Parse("a", "")
	_, elsewhere := pathuri.Parse("file://host/a", "")
	system := func(errno unix.Errno) error { return &files.OSError{Path: "/a", Errno: errno} }
	for _, tt := range []struct {
		err  error
		code int
		text string
	}{
		{system(unix.ENOENT), -32004, "No such file or directory (os error 2): /a"},
		{system(unix.EACCES), -32600, "Permission denied (os error 13): /a"},
		{system(unix.EPERM), -32600, "Operation not permitted (os error 1): /a"},
		{system(unix.EINVAL), -32600, "Invalid argument (os error 22): /a"},
		{system(unix.EROFS), -32603, "Read-only file system (os error 30): /a"},
		{system(unix.ENOTDIR), -32603, "Not a directory (os error 20): /a"},
		{fmt.Errorf("x: %w", unix.ENOENT), -32004, "x: no such file or directory"},
		{files.ErrSymlink, -32600, "path contains a symbolic link"},
		{files.ErrStalled, -32603, files.ErrStalled.Error()},
		{relative, -32602, "path is not absolute: a"},
		{elsewhere, -32600, "'file://host/a' is invalid on 'linux'"},
		{fmt.Errorf("stopped: %w", context.Canceled), -32603, "the request was cancelled because its connection ends"},
		{Invalid("x"), -32600, "x"},
	} {
		if got := Error(tt.err); got.Code != tt.code || got.Message != tt.text {
			t.Errorf("%v: %d %s, want %d %s", tt.err, got.Code, got.Message, tt.code, tt.text)
		}
	}
}

func TestChecksAtTheirLimits(t *testing.T) {
	const most = execproto.MaxBlockBytes
	for n, want := range map[int]bool{0: false, 1: true, most: true, most + 1: false} {
		if read, write := CheckReadLength(uint64(n)), CheckWriteLength(n); (read == nil) != want || (write == nil) != want {
			t.Errorf("%d: got read %v, write %v; want read == nil: %v, write == nil: %v", n, read, write, want, want)
		}
	}
	id := make([]byte, execproto.MaxHandleIDBytes+1)
	if err := CheckHandleID(string(id)); err == nil {
		t.Error("a long id was accepted")
	}
	if err := CheckHandleID(string(id[1:])); err != nil {
		t.Error(err)
	}
}

// run decodes, resolves and runs a request.
func run(t *testing.T, method, params string) (Result, error) {
	t.Helper()
	call, err := Find(method).Decode([]byte(params))
	if err != nil {
		t.Fatal(err)
	}
	if err := call.Resolve(""); err != nil {
		t.Fatal(err)
	}
	return call.Run(t.Context(), false)
}

func TestBooleansDefaultToTrue(t *testing.T) {
	dir := t.TempDir()
	if _, err := run(t, "fs/createDirectory", `{"path":"`+dir+`/a/b"}`); err != nil {
		t.Error(err)
	}
	for range 2 {
		if _, err := run(t, "fs/remove", `{"path":"`+dir+`/a"}`); err != nil {
			t.Error(err)
		}
	}
	if linkOptions(nil).NoFollow || !linkOptions(new(bool)).NoFollow {
		t.Error("followSymlinks is not true by default")
	}
}

func TestFindKnowsTheTable(t *testing.T) {
	for i := range Operations() {
		row := &Operations()[i]
		if Find(row.Method) != row {
			t.Errorf("%s is there twice", row.Method)
		}
		if _, err := row.Decode([]byte("[]")); err == nil {
			t.Errorf("%s: an array was accepted", row.Method)
		}
	}
	if Find("fs/open") != nil || Find("") != nil {
		t.Error("found a method that is not in the table")
	}
}

// TestGrowingFile: a small file is read to its end, and a large one up to the size that it had
// when it was opened.
func TestGrowingFile(t *testing.T) {
	for size, want := range map[int]int{readAll: readAll + 3, readAll + 1: readAll + 1} {
		name := t.TempDir() + "/f"
		if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := run(t, "fs/readFile", `{"path":"`+name+`"}`)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString("xyz")
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		if data, err := io.ReadAll(r.Content); len(data) != want || err != nil {
			t.Errorf("size %d: %d bytes, %v, want %d", size, len(data), err, want)
		}
		if err := r.Content.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestContentIsLimited reads a file that is small at first and then grows beyond the limit.
func TestContentIsLimited(t *testing.T) {
	name := t.TempDir() + "/f"
	if err := os.WriteFile(name, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	for left, want := range map[int64]error{3: nil, 2: files.ErrTooLarge} {
		c, err := openContent(name, files.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c.left = left
		if data, err := io.ReadAll(c); err != want || len(data) != int(left) {
			t.Errorf("%d: %q, %v, want %v", left, data, err, want)
		}
		_ = c.Close()
	}
}
