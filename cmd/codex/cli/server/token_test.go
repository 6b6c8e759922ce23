package server

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestMakeToken(t *testing.T) {
	dir := t.TempDir()
	var texts []string
	for _, name := range []string{"a", "b"} {
		path := filepath.Join(dir, name)
		if err := makeToken(path); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		text, read := os.ReadFile(path)
		if err := errors.Join(err, read); err != nil || info.Mode().Perm() != 0o600 || len(text) != 44 {
			t.Errorf("%v %d bytes, %v", info.Mode(), len(text), err)
		}
		texts = append(texts, string(text))
	}
	if texts[0] == texts[1] {
		t.Error("two tokens are the same")
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "link"} {
		if err := makeToken(filepath.Join(dir, name)); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: got error %v, want %v", name, err, fs.ErrExist)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(text) != texts[0] {
		t.Errorf("the first token was replaced: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("a link was followed")
	}
}
