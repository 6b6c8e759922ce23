//go:build linux

package execclient_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/pkg/execclient"
)

// next returns the next changes, separated by commas.
func next(t *testing.T, w *execclient.Watch, dir string) string {
	t.Helper()
	n, err := w.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	if n.Overflow {
		told = append(told, "overflow")
	}
	for _, e := range n.Events {
		told = append(told, e.Kind+" "+strings.TrimPrefix(e.Path, dir+"/"))
	}
	return strings.Join(told, ", ")
}

func TestWatch(t *testing.T) {
	client, _ := connect(t)
	files := client.FS()
	dir := t.TempDir()
	w, err := files.Watch(t.Context(), dir, execclient.WatchOptions{Recursive: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(dir+"/a b/c", 0o755), os.WriteFile(dir+"/a b/c/\xff", nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if got, want := next(t, w, dir), "created a b, created a b/c, created a b/c/\xff"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if _, err := w.Next(t.Context()); !errors.Is(err, execclient.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := files.Watch(t.Context(), dir+"/none", execclient.WatchOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a path that does not exist: %v", err)
	}
	gone := filepath.Join(dir, "a b", "c")
	if w, err = files.Watch(t.Context(), gone, execclient.WatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(gone); err != nil {
		t.Fatal(err)
	}
	var ended *execclient.WatchEndedError
	for err == nil {
		_, err = w.Next(t.Context())
	}
	if !errors.As(err, &ended) || !strings.Contains(ended.Reason, "was moved or removed") {
		t.Errorf("the watch of a removed directory: %v", err)
	}
}

// TestWatchEndsWithTheClient: a waiting Next returns when the client is closed.
func TestWatchEndsWithTheClient(t *testing.T) {
	client, _ := connect(t)
	w, err := client.FS().Watch(t.Context(), t.TempDir(), execclient.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan error)
	go func() {
		_, err := w.Next(t.Context())
		told <- err
	}()
	_ = client.Close()
	if err := <-told; !errors.Is(err, execclient.ErrClosed) {
		t.Errorf("told %v", err)
	}
}
