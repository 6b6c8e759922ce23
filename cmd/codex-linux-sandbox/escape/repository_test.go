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
