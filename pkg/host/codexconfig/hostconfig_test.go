//go:build linux

package codexconfig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

// files writes files below a new directory, whose path replaces DIR in their
// texts, and returns it.
func files(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range texts {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func read(t *testing.T, dir, cwd string, keys ...string) (Result, error) {
	t.Helper()
	var paths [][]string
	for _, key := range keys {
		paths = append(paths, []string{key})
	}
	m := Machine{System: filepath.Join(dir, "etc"), Home: filepath.Join(dir, "home")}
	return m.Read(context.Background(), Query{Cwd: filepath.Join(dir, cwd), Config: paths, Requirements: paths})
}

// texts are the documents of layers.
func texts(s Stack) []string {
	list := []string{}
	for _, l := range s.Layers {
		list = append(list, l.TOML)
	}
	return list
}

func TestLayers(t *testing.T) {
	dir := files(t, map[string]string{
		"etc/config.toml":         "k = 'system'\n",
		"etc/managed_config.toml": "k = 'managed'\napproval_policy = 'never'\n",
		"etc/requirements.toml":   "k = 'required'\n",
		"home/config.toml":        "k = 'user'\n[projects.'DIR/p']\ntrust_level = 'trusted'\n",
		"p/.git/HEAD":             "",
		"p/.codex/config.toml":    "k = 'project'\n",
	})
	got, err := read(t, dir, "p", "k", "allowed_approval_policies")
	want := Result{
		Config: Stack{System: 1, Layers: []Layer{
			{"system (" + dir + "/etc/config.toml)", dir + "/etc", "k = \"system\"\n"},
			{"user (" + dir + "/home/config.toml)", dir + "/home", "k = \"user\"\n"},
			{"project (" + dir + "/p/.codex/config.toml)", dir + "/p/.codex", "k = \"project\"\n"},
			{"legacy managed_config.toml (" + dir + "/etc/managed_config.toml)", dir + "/etc", "k = \"managed\"\n"},
		}},
		Requirements: Stack{System: 1, Layers: []Layer{
			{dir + "/etc/requirements.toml", dir + "/etc", "k = \"required\"\n"},
			{dir + "/etc/managed_config.toml", dir + "/etc", "allowed_approval_policies = [\"never\"]\n"},
		}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	got, err = read(t, dir, "p", "none")
	if err != nil || !reflect.DeepEqual(got, Result{}) {
		t.Errorf("nothing selected: got %+v, %v", got, err)
	}
}

func TestTrust(t *testing.T) {
	trust := func(path, level string) string {
		return fmt.Sprintf("[projects.'DIR/%s']\ntrust_level = '%s'\n", path, level)
	}
	both := map[string]string{"p/.codex/config.toml": "k = 'root'\nnotify = ['x']\n", "p/s/.codex/config.toml": "k = 'sub'\n"}
	root, sub := "k = \"root\"\n", "k = \"sub\"\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		cwd   string
		want  []string
	}{
		{"no entry", map[string]string{"p/.git/HEAD": ""}, "p/s", nil},
		{"the root", map[string]string{"p/.git/HEAD": "", "home/config.toml": trust("p", "trusted")}, "p/s/t", []string{root, sub}},
		{"not below cwd", map[string]string{"p/.git/HEAD": "", "home/config.toml": trust("p", "trusted")}, "p", []string{root}},
		{"its own entry", map[string]string{"p/.git/HEAD": "", "home/config.toml": trust("p", "trusted") + trust("p/s", "untrusted")}, "p/s", []string{root}},
		{"an unknown word", map[string]string{"p/.git/HEAD": "", "home/config.toml": trust("p", "trusted") + trust("p/s", "yes")}, "p/s", []string{root}},
		{"only below", map[string]string{"p/.git/HEAD": "", "home/config.toml": trust("p/s", "trusted")}, "p/s", []string{sub}},
		{"no marker", map[string]string{"home/config.toml": trust("p", "trusted")}, "p/s", nil},
		{"an empty .git", map[string]string{"p/.git/x": "", "home/config.toml": trust("p", "trusted")}, "p/s", nil},
		{"the user's marker", map[string]string{"p/.m": "", "home/config.toml": "project_root_markers = ['.m']\n" + trust("p", "trusted")}, "p/s", []string{root, sub}},
		{"no markers", map[string]string{"p/.git/HEAD": "", "home/config.toml": "project_root_markers = []\n" + trust("p", "trusted")}, "p/s", []string{sub}},
		{"the administrator's word", map[string]string{"p/.git/HEAD": "", "home/config.toml": trust("p", "trusted"), "etc/managed_config.toml": trust("p", "untrusted")}, "p", nil},
		{"a project's word", map[string]string{"p/.git/HEAD": "", "p/.codex/config.toml": "k = 1\n" + trust("p", "trusted")}, "p", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := map[string]string{}
			for _, m := range []map[string]string{both, c.files} {
				for name, text := range m {
					all[name] = text
				}
			}
			dir := files(t, all)
			got, err := read(t, dir, c.cwd, "k", "notify")
			if err != nil || fmt.Sprint(texts(got.Config)) != fmt.Sprint(c.want) {
				t.Errorf("got %q, %v, want %q", texts(got.Config), err, c.want)
			}
		})
	}
}

func TestTrustOfLinkedDirectories(t *testing.T) {
	dir := files(t, map[string]string{
		"home/config.toml":        "[projects.'DIR/p']\ntrust_level = 'trusted'\n",
		"p/.codex/config.toml":    "k = 'p'\n",
		"evil/.codex/config.toml": "k = 'evil'\n",
	})
	for link, target := range map[string]string{"l": "p", "p/e": "../evil"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := read(t, dir, "l", "k")
	want := []Layer{{"project (" + dir + "/l/.codex/config.toml)", dir + "/l/.codex", "k = \"p\"\n"}}
	if err != nil || !reflect.DeepEqual(got.Config.Layers, want) {
		t.Errorf("a link to a trusted project: got %+v, %v", got, err)
	}
	if got, err = read(t, dir, "p/e", "k"); err != nil || len(got.Config.Layers) > 0 {
		t.Errorf("a link in a trusted project to another directory: got %+v, %v", got, err)
	}
}

func TestLinkedWorkTree(t *testing.T) {
	base := map[string]string{
		"home/config.toml":           "[projects.'DIR/main']\ntrust_level = 'trusted'\n",
		"main/.git/HEAD":             "",
		"main/.git/worktrees/w/HEAD": "",
		"main/.codex/config.toml":    "k = 'main'\nhooks = 'main'\n",
		"w/.git":                     "gitdir: DIR/main/.git/worktrees/w\n",
		"w/.codex/config.toml":       "k = 'w'\nhooks = 'w'\n",
	}
	dir := files(t, base)
	back := filepath.Join(dir, "main/.git/worktrees/w/gitdir")
	if got, err := read(t, dir, "w", "k", "hooks"); err != nil || len(got.Config.Layers) > 0 {
		t.Errorf("a tree that the repository does not name: got %+v, %v", got, err)
	}
	if err := os.WriteFile(back, []byte(dir+"/w/.git\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := read(t, dir, "w", "k", "hooks")
	want := []string{"k = \"w\"\n", "hooks = \"main\"\n"}
	if err != nil || !reflect.DeepEqual(texts(got.Config), want) {
		t.Errorf("got %q, %v, want %q", texts(got.Config), err, want)
	}
	if l := got.Config.Layers[1]; l.BaseDir != dir+"/main/.codex" {
		t.Errorf("the main tree's layer has the directory %s", l.BaseDir)
	}
}

func TestFilesThatFail(t *testing.T) {
	for _, name := range []string{
		"etc/config.toml", "etc/managed_config.toml", "etc/requirements.toml", "home/config.toml", "p/.codex/config.toml",
	} {
		base := map[string]string{
			"etc/managed_config.toml": "[projects.'DIR/p']\ntrust_level = 'trusted'\n",
			"etc/config.toml":         "[projects.'DIR/p']\ntrust_level = 'trusted'\n",
			"p/.codex/x":              "", "home/x": "",
		}
		base[name] = "bad = = x\n"
		dir := files(t, base)
		path := filepath.Join(dir, name)
		try := func(what string) {
			if _, err := read(t, dir, "p", "k"); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s %s: got error %v, want one that names it", what, name, err)
			}
		}
		try("malformed")
		replace := func(make func() error) {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			if err := make(); err != nil {
				t.Fatal(err)
			}
		}
		replace(func() error { return syscall.Mkfifo(path, 0o600) })
		try("a FIFO in place of")
		replace(func() error { return os.Mkdir(path, 0o700) })
		try("a directory in place of")
		replace(func() error { return os.WriteFile(path, make([]byte, maxFileBytes+1), 0o600) })
		try("too large")
	}
}

func TestMarkersMustBeStrings(t *testing.T) {
	for _, markers := range []string{"1", "[1]", "'x'"} {
		dir := files(t, map[string]string{"home/config.toml": "project_root_markers = " + markers + "\n"})
		if _, err := read(t, dir, "", "k"); err == nil || !strings.Contains(err.Error(), "project_root_markers") {
			t.Errorf("%s: got error %v", markers, err)
		}
	}
}

func TestDirectoriesAreBounded(t *testing.T) {
	dir := files(t, map[string]string{".git/HEAD": ""})
	if _, err := read(t, dir, strings.Repeat("x/", maxDirectories+1), "k"); err == nil {
		t.Error("got no error")
	}
	if _, err := read(t, dir, strings.Repeat("x/", maxDirectories-1), "k"); err != nil {
		t.Errorf("got error %v", err)
	}
}

func TestHomeIsNoProject(t *testing.T) {
	dir := files(t, map[string]string{".codex/config.toml": "k = 1\n[projects.'DIR']\ntrust_level = 'trusted'\n"})
	m := Machine{System: filepath.Join(dir, "etc"), Home: filepath.Join(dir, ".codex")}
	got, err := m.Read(context.Background(), Query{Cwd: dir, Config: [][]string{{"k"}}})
	if err != nil || len(got.Config.Layers) != 1 || !strings.HasPrefix(got.Config.Layers[0].Source, "user ") {
		t.Errorf("got %+v, %v, want the user's layer alone", got, err)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := (Machine{System: t.TempDir()}).Read(ctx, Query{Cwd: "/"}); err == nil {
		t.Error("got no error")
	}
}
