//go:build linux

package execclient_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codex.internal/pkg/execclient"
)

func TestAttributesAndLinks(t *testing.T) {
	client, _ := connect(t)
	files, ctx := client.FS(), t.Context()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	private := fs.FileMode(0o600)
	for _, err := range []error{
		files.WriteFileWith(ctx, at("small"), []byte("x"), execclient.WriteOptions{Atomic: true, Permissions: &private}),
		files.WriteStream(ctx, at("large"), strings.NewReader("y"), execclient.WriteOptions{Atomic: true, Permissions: &private}),
		files.MkdirAllWith(ctx, at("dir"), execclient.MkdirOptions{Permissions: new(fs.FileMode(0o700))}),
		files.Symlink(ctx, "small", at("link"), execclient.SymlinkOptions{}),
		files.Symlink(ctx, "large", at("link"), execclient.SymlinkOptions{Overwrite: true}),
		files.Chmod(ctx, at("large"), 0o750),
		files.Chtimes(ctx, at("large"), time.Unix(1, 0)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Symlink(ctx, "x", at("link"), execclient.SymlinkOptions{}); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if err := files.Chmod(ctx, at("link"), 0o600); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	way := t.TempDir() + "/way"
	if err := os.Symlink(dir, way); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"write":   files.WriteFileWith(ctx, way+"/small", nil, execclient.WriteOptions{Atomic: true, NoFollow: true}),
		"stream":  files.WriteStream(ctx, way+"/large", strings.NewReader(""), execclient.WriteOptions{Atomic: true, NoFollow: true}),
		"mkdir":   files.MkdirAllWith(ctx, way+"/new", execclient.MkdirOptions{NoFollow: true}),
		"symlink": files.Symlink(ctx, "x", way+"/new", execclient.SymlinkOptions{NoFollow: true}),
		"set":     files.SetAttributes(ctx, way+"/small", execclient.AttributeChanges{Permissions: &private, NoFollow: true}),
	} {
		if !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s through a link: %v", name, err)
		}
	}
	if target, err := files.Readlink(ctx, at("link")); target != "large" || err != nil {
		t.Errorf(`got target %q, error %v; want target "large", no error`, target, err)
	}
	if _, err := files.Readlink(ctx, at("large")); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	list, err := files.ListAttributes(ctx, dir)
	if err != nil || len(list) != 4 {
		t.Fatalf("got list %v, error %v; want no error, len(list) 4", list, err)
	}
	entries, err := files.ReadDirAttributes(ctx, dir)
	if err != nil || len(entries) != len(list) {
		t.Fatalf("got entries %v, error %v; want no error, len(entries) %v", entries, err, len(list))
	}
	for i, e := range list {
		if entries[i].FileName != e.FileName || *entries[i].Attributes != e.Attributes {
			t.Errorf("%+v, listed as %+v", entries[i], e)
		}
		st, err := os.Lstat(at(e.FileName))
		if err != nil || uint32(st.Mode().Perm()) != e.Permissions || st.ModTime().UnixMilli() != e.ModifiedAtMS {
			t.Errorf("got e %+v, st %v, error %v; want no error, uint32(st.Mode().Perm()) %v, st.ModTime().UnixMilli() %v", e, st, err, e.Permissions, e.ModifiedAtMS)
		}
	}
}
