package escape

import (
	"context"
	"os"
	"strings"
	"testing"
)

// TestWhatGitReadsIsProtected: a command can neither change nor create the configuration that git
// finally reads through .git.
func TestWhatGitReadsIsProtected(t *testing.T) {
	for _, tt := range []struct {
		name   string
		files  map[string]string // paths below the place; ws and two are writable
		links  map[string]string
		config string // the file that git would read
	}{
		{"a directory", map[string]string{"ws/.git": "gitdir: meta/git", "ws/meta/git/config": "x"}, nil, "ws/meta/git/config"},
		{"a missing one", map[string]string{"ws/.git": "gitdir: meta/git"}, nil, "ws/meta/git/config"},
		{"a missing one in a directory", map[string]string{"ws/.git": "gitdir: meta/git", "ws/meta/x": "x"}, nil, "ws/meta/git/config"},
		{"an absolute one", map[string]string{"ws/.git": "gitdir: DIR/two/git"}, nil, "two/git/config"},
		{"a blank at the end", map[string]string{"ws/.git": "gitdir: meta/git \n", "ws/meta/x": "x"}, nil, "ws/meta/git /config"},
		{"a common directory with a blank at the end", map[string]string{"ws/.git/commondir": "../common \r\n"}, nil, "ws/common /config"},
		{"another writable root", map[string]string{"ws/.git": "gitdir: ../two/git", "two/git/config": "x"}, nil, "two/git/config"},
		{"a common directory", map[string]string{"ws/.git": "gitdir: ../repo/worktrees/w", "repo/worktrees/w/commondir": "../../../two/common\n", "two/common/config": "x"}, nil, "two/common/config"},
		{"a missing common directory", map[string]string{"ws/.git": "gitdir: ../repo/worktrees/w", "repo/worktrees/w/commondir": "DIR/two/common"}, nil, "two/common/config"},
		{"a common directory of .git", map[string]string{"ws/.git/commondir": "../common"}, nil, "ws/common/config"},
		{"a link in .git", map[string]string{"ws/.git/HEAD": "x", "ws/cfg/config": "x"}, map[string]string{"ws/.git/config": "../cfg/config"}, "ws/cfg/config"},
		{"a link to what is missing", map[string]string{"ws/.git/HEAD": "x"}, map[string]string{"ws/.git/hooks": "../hooks"}, "ws/hooks/post-commit"},
		{"a .git above", map[string]string{".git": "gitdir: ws/meta"}, nil, "ws/meta/config"},
		{"down and up again", map[string]string{"repo/x": "x", "ws/.git": "gitdir: no/../meta", "two/meta/config": "x"}, nil, "ws/no/../meta/config"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			each(t, mounted, func(t *testing.T, p *place, backend string) {
				for _, dir := range []string{"ws", "two"} {
					p.file(dir+"/x/file", "x")
				}
				for name, text := range tt.files {
					p.file(name, strings.ReplaceAll(text, "DIR", p.dir))
				}
				for name, to := range tt.links {
					must(t, os.Symlink(to, p.dir+"/"+name))
				}
				config := p.dir + "/" + tt.config
				ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
				defer cancel()
				cmd := p.shell(ctx, backend, p.ws, entries("root=read", p.ws+"=write", p.dir+"/two=write"), `touch ran
					d=${1%/*}; case $1 in */no/*) ln -s "$2/two/x" no; mkdir -p "$2/two/meta"; d=$2/two/meta ;; esac
					mkdir -p "$d"; echo evil >"$1"
					mv "$d" "$d.old"; mv "${d%/*}" "${d%/*}.old"; rm -rf "$d"; mkdir -p "$d"; echo evil >"$1"
					ln -s "$2/two/x" "$d"; echo evil >"$1"; :`, config, p.dir)
				out, err := cmd.CombinedOutput()
				if !exists(p.ws + "/ran") {
					t.Fatalf("nothing was tried: %v: %s", err, out)
				}
				if b, _ := os.ReadFile(config); strings.Contains(string(b), "evil") {
					t.Errorf("%s was made by the command: %s", tt.config, out)
				}
			})
		})
	}
}

// TestProtectedLinks: a .git, .codex or .agents that is a link can be followed, but not be replaced, and what it leads
// to cannot be changed. bwrap follows links, so it refuses.
func TestProtectedLinks(t *testing.T) {
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		p.file("repo/git/config", "kept")
		p.file("two/codex/config", "kept") // in a writable root
		links := map[string]string{".git": "../repo/git", ".codex": p.dir + "/two/codex", ".agents": "../two/missing"}
		for name, to := range links {
			must(t, os.Symlink(to, p.ws+"/"+name))
		}
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		out, err := p.shell(ctx, backend, p.ws, entries("root=read", p.ws+"=write", p.dir+"/two=write"), `
			cat .git/config .codex/config >read
			for l in .git .codex .agents; do
				echo evil >$l/config; echo evil >$l; rm -f $l; mv $l moved; mkdir other; mv -T other $l
				ln -s /tmp new; mv -T new $l; ln -sfn /tmp $l; chmod 700 $l; mkdir $l; rm -f new
			done
			mv "$1/two/codex" "$1/two/c"; mkdir "$1/two/missing"; echo evil >"$1/two/missing"
			mv "$1/ws" "$1/w"; :`, p.dir).CombinedOutput()
		if backend == "bwrap" {
			if want := "bwrap cannot prevent the symbolic link"; err == nil || !strings.Contains(string(out), want) {
				t.Errorf("got %v: %s; want an error with %q", err, out, want)
			}
			return
		}
		if b, _ := os.ReadFile(p.ws + "/read"); string(b) != "keptkept" {
			t.Fatalf("got %q behind the links, want %q: %v: %s", b, "keptkept", err, out)
		}
		for name, want := range links {
			if got, err := os.Readlink(p.ws + "/" + name); got != want {
				t.Errorf("%s leads to %q, %v; want %q: %s", name, got, err, want, out)
			}
		}
		for _, name := range []string{"repo/git/config", "two/codex/config"} {
			if b, _ := os.ReadFile(p.dir + "/" + name); string(b) != "kept" {
				t.Errorf("got %q in %s, want %q", b, name, "kept")
			}
		}
		if exists(p.dir + "/two/missing") {
			t.Errorf("the missing target of .agents exists: %s", out)
		}
	})
}
