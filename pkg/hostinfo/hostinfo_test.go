package hostinfo

import (
	"path/filepath"
	"testing"
)

func TestChoose(t *testing.T) {
	for _, tt := range []struct {
		login string
		there []string
		want  Shell
	}{
		{"/usr/bin/fish", []string{"/usr/bin/fish", "/bin/bash"}, Shell{"fish", "/usr/bin/fish"}},
		{"/usr/bin/zsh", []string{"/bin/bash"}, Shell{"bash", "/bin/bash"}},
		{"/usr/sbin/nologin", []string{"/usr/sbin/nologin", "/bin/zsh"}, Shell{"zsh", "/bin/zsh"}},
		{"", nil, Shell{"sh", "/bin/sh"}},
	} {
		there := func(path string) bool {
			for _, p := range tt.there {
				if p == path {
					return true
				}
			}
			return false
		}
		if got := choose(tt.login, there); got != tt.want {
			t.Errorf("%q: %v, want %v", tt.login, got, tt.want)
		}
	}
}

func TestRead(t *testing.T) {
	t.Setenv("TMPDIR", "/some/tmp")
	t.Setenv("HOME", "relative")
	info := Read()
	if !filepath.IsAbs(info.Shell.Path) || info.TempDir != "/some/tmp" || info.Home != "" ||
		len(info.TemporaryDirectories) != 1 || !filepath.IsAbs(info.Cwd) {
		t.Errorf("%+v", info)
	}
}
