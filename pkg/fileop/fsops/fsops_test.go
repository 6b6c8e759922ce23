//go:build linux || darwin

package fsops

import (
	"context"
	"fmt"
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
			t.Errorf("%d: %v, %v", n, read, write)
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

func TestBooleansDefaultToTrue(t *testing.T) {
	dir := t.TempDir()
	if err := CreateDirectory(dir+"/a/b", &execproto.CreateDirectoryParams{}); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := Remove(t.Context(), dir+"/a", &execproto.RemoveParams{}); err != nil {
			t.Error(err)
		}
	}
	if LinkOptions(nil).NoFollow || !LinkOptions(new(bool)).NoFollow {
		t.Error("followSymlinks is not true by default")
	}
}
