//go:build linux

package fsx_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execclient/fsx"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/testutil"
)

// connect returns a client of a new server. Both end with the test.
func connect(t testing.TB) *execclient.Client {
	t.Helper()
	srv, err := execserver.New(execserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(context.Background(), l) })
	client, err := execclient.DialWebSocket(t.Context(), "ws://"+l.Addr().String(), execclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		_ = srv.Shutdown(context.Background())
		serving.Wait()
	})
	return client
}

// tree makes files and directories. The name of a directory ends with a slash, and a link's
// has an arrow and its target.
func tree(t testing.TB, names ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range names {
		name, target, link := strings.Cut(name, "->")
		at := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(at), 0o700)
		switch {
		case err != nil:
		case link:
			err = os.Symlink(target, at)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(at, 0o700)
		default:
			err = os.WriteFile(at, []byte("contents of "+name), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestFS(t *testing.T) {
	client := connect(t)
	root := tree(t, "a", "dir/b", "dir/deep/er/c", "odd name%?#", "empty/", "none", "dir/link->../a", "dir/down->deep")
	if err := os.Truncate(filepath.Join(root, "none"), 0); err != nil {
		t.Fatal(err)
	}
	expected := []string{"a", "dir/b", "dir/deep/er/c", "odd name%?#", "empty", "none", "dir/link"}
	for name, files := range map[string]fs.FS{
		"a path": fsx.New(t.Context(), client.FS(), root),
		"a URI":  fsx.New(t.Context(), client.FS(), "file://"+root+"/"),
	} {
		t.Run(name, func(t *testing.T) {
			if err := fstest.TestFS(files, expected...); err != nil {
				t.Error(err)
			}
		})
	}
	sub, err := fs.Sub(fsx.New(t.Context(), client.FS(), root), "dir")
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(sub, "b", "deep/er/c"); err != nil {
		t.Error(err)
	}
}

// TestWalksDoNotGoRound: links are recognized. The server does not list links that lead
// nowhere.
func TestWalksDoNotGoRound(t *testing.T) {
	client := connect(t)
	root := tree(t, "a", "dir/b", "dir/up->..", "file->a", "nowhere->none")
	var got []string
	err := fs.WalkDir(fsx.New(t.Context(), client.FS(), root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := d.Info()
		if err != nil {
			return err
		}
		got = append(got, fmt.Sprint(name, " ", i.Mode()))
		return nil
	})
	want := []string{
		". drwxr-xr-x", "a -rw-r--r--", "dir drwxr-xr-x", "dir/b -rw-r--r--", "dir/up Lrwxrwxrwx", "file Lrwxrwxrwx",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, error %v; want no error, %q", got, err, want)
	}
}

func TestFiles(t *testing.T) {
	client := connect(t)
	root := tree(t, "dir/a")
	files := fsx.New(t.Context(), client.FS(), root)
	f, err := files.Open("dir/a")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Name() != "a" || st.Size() != 17 || st.IsDir() {
		t.Errorf(`got st %v, error %v; want no error, st.Name() "a", st.Size() 17, not st.IsDir()`, st, err)
	}
	if _, err := f.(io.Seeker).Seek(12, io.SeekStart); err != nil {
		t.Error(err)
	}
	if rest, err := io.ReadAll(f); err != nil || string(rest) != "dir/a" {
		t.Errorf(`got rest %q, error %v; want no error, rest "dir/a"`, rest, err)
	}
	b := make([]byte, 2)
	if n, err := f.(io.ReaderAt).ReadAt(b, 12); err != nil || string(b[:n]) != "di" {
		t.Errorf(`got b %q, error %v; want no error, b[:n] "di"`, b, err)
	}
	for name, want := range map[string]error{"none": fs.ErrNotExist, "../x": fs.ErrInvalid, "/etc": fs.ErrInvalid, "dir/": fs.ErrInvalid} {
		_, openErr := files.Open(name)
		_, statErr := files.Stat(name)
		_, dirErr := files.ReadDir(name)
		_, fileErr := files.ReadFile(name)
		for _, err := range []error{openErr, statErr, dirErr, fileErr} {
			var p *fs.PathError
			if !errors.Is(err, want) || !errors.As(err, &p) || p.Path != name {
				t.Errorf("%s: got error %v; want %v, errors.As(err, &p), p.Path %s", name, err, want, name)
			}
		}
	}
	d, err := files.Open("dir")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Read(b); err == nil {
		t.Error("a directory was read")
	}
	dir := d.(fs.ReadDirFile)
	if list, err := dir.ReadDir(5); err != nil || len(list) != 1 || list[0].Name() != "a" {
		t.Errorf(`got list %v, error %v; want no error, len(list) 1, list[0].Name() "a"`, list, err)
	}
	if list, err := dir.ReadDir(5); err != io.EOF || len(list) != 0 {
		t.Errorf("got list %v, error %v; want error %v, len(list) 0", list, err, io.EOF)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a second Close: %v", err)
	}
}

func TestNamesThatAreNoUTF8AreTold(t *testing.T) {
	client := connect(t)
	root := tree(t, "a")
	err := os.WriteFile(filepath.Join(root, "odd\xff"), nil, 0o600)
	testutil.Need(t, "file system for names that are no UTF-8", err, errors.ErrUnsupported, syscall.EILSEQ)
	list, err := fsx.New(t.Context(), client.FS(), root).ReadDir(".")
	if err == nil || len(list) != 1 || list[0].Name() != "a" {
		t.Errorf(`got list %v, error %v; want an error, len(list) 1, list[0].Name() "a"`, list, err)
	}
}

func TestItEndsWithItsContext(t *testing.T) {
	client := connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	files := fsx.New(ctx, client.FS(), tree(t, "a"))
	cancel()
	if _, err := fs.ReadFile(files, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}
