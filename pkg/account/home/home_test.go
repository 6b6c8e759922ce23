package home

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMake(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, variable, err string }{
		{"unset", "", ""},
		{"a directory", dir, ""},
		{"missing", filepath.Join(dir, "new"), ""},
		{"missing, with the directory above it", filepath.Join(dir, "a", "b"), "cannot be made: no such file or directory"},
		{"below a file", filepath.Join(file, "x"), "cannot be made: not a directory"},
	} {
		t.Setenv(Variable, tt.variable)
		err := Make()
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: got error %v, want %q", tt.name, err, tt.err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "new")); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("got %v, %v; want a directory with mode 0700", info, err)
	}
}

func TestFind(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", dir)
	for _, tt := range []struct{ name, variable, want, err string }{
		{"unset", "", filepath.Join(dir, ".codex"), ""},
		{"a directory", dir, dir, ""},
		{"a link", link, dir, ""},
		{"missing", filepath.Join(dir, "none"), "", `CODEX_HOME points to "` + filepath.Join(dir, "none") + `", but that path does not exist`},
		{"a file", file, "", `CODEX_HOME points to "` + file + `", but that path is not a directory`},
		{"below a file", filepath.Join(file, "x"), "", `failed to read CODEX_HOME "` + filepath.Join(file, "x") + `": not a directory`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(Variable, tt.variable)
			got, err := Find()
			text := ""
			if err != nil {
				text = err.Error()
			}
			if got != tt.want || text != tt.err {
				t.Errorf("%q, %q; want %q, %q", got, text, tt.want, tt.err)
			}
		})
	}
	t.Setenv(Variable, "")
	t.Setenv("HOME", "")
	if _, err := Find(); err == nil || err.Error() != "Could not find home directory" {
		t.Errorf("without a home: %v", err)
	}
}
