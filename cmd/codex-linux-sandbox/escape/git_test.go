package escape

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/testutil"
)

// granting are the backends that can grant a repository without what git executes.
var granting = []string{"namespaces", "bwrap", "broker"}

// gitSetup makes repositories in the directory of a place: ws with a submodule and a remote, a linked worktree of it, and a
// bare one. Each has what `git init` makes, but one example of a hook instead of fourteen, because they are copied often.
const gitSetup = `set -e
	git config --global init.defaultBranch main
	git config --global init.templateDir "$1/template"
	git config --global protocol.file.allow always
	git config --global filter.run.clean "sh -c 'touch $1/ran; cat'"
	cd "$1"
	mkdir -p template/hooks template/info; echo '#' | tee template/hooks/pre-commit.sample >template/info/exclude
	git init -q module; (cd module; echo 1 >s; git add s; git commit -qm s)
	git init -q --bare remote
	cd ws
	git init -q; echo 1 >a; git add a; git commit -qm one
	git submodule --quiet add ../module sub; git commit -qm sub
	git remote add origin ../remote; git push -q origin main
	git config extensions.worktreeConfig true
	git worktree add -q -b linked ../linked
	git clone -q ../remote ../other
	(cd ../other; echo o >o; git add o; git commit -qm other; git push -q origin main)
	git init -q --bare ../bare; git push -q ../bare main
	mkdir payload; printf '#!/bin/sh\ntouch %s/ran\n' "$1" >payload/run; chmod +x payload/run
`

// outside runs a script of the user outside of any sandbox, with the place as its argument.
func (p *place) outside(dir, script string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*testTimeout) // git starts dozens of processes
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", script, "sh", p.dir)
	cmd.Dir, cmd.SysProcAttr, cmd.Env = dir, as(p.uid), p.gitEnv()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// gitEnv is the environment of a user who has a name and a configuration of git in the place.
func (p *place) gitEnv() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir + "/home", "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.invalid",
		"GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.invalid", "GIT_EDITOR=true", "LC_ALL=C",
	}
}

// inside runs a script in a sandbox that grants a directory and its repository.
func (p *place) inside(backend, dir, script string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*testTimeout)
	defer cancel()
	cmd := p.shell(ctx, backend, dir, entries("root=read", dir+"=write", ":git=write"), script, p.dir)
	cmd.Env = p.gitEnv()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// makeRepositories makes the repositories of gitSetup, and keeps a copy of them.
func (p *place) makeRepositories() {
	p.t.Helper()
	p.file("home/.keep", "")
	if out, err := p.outside(p.dir, gitSetup+`cd ..; mkdir kept; cp -a ws module remote linked other bare kept`); err != nil {
		p.t.Fatalf("make the repositories: %v: %s", err, out)
	}
}

// restoreRepositories makes the repositories as they were. Their paths are the same, because they contain their paths.
func (p *place) restoreRepositories(t *testing.T) {
	t.Helper()
	if out, err := p.outside(p.dir, `rm -rf ws module remote linked other bare ran; cp -a kept/. .`); err != nil {
		t.Fatalf("restore the repositories: %v: %s", err, out)
	}
}

func needGit(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("git")
	testutil.Need(t, "git", err, exec.ErrNotFound)
}

// TestGitInAGrantedRepository: git works in a repository that the profile grants with permissions.GitPath. What changes
// the configuration, or makes another repository in it, fails, and the error of git names the file.
func TestGitInAGrantedRepository(t *testing.T) {
	needGit(t)
	cases := []struct {
		name, dir, script string
		refused           string // a part of git's error; "": the script succeeds
	}{
		{"commit", "ws", `echo 2 >a; git add a; git commit -qm two; git commit -q --amend -m again; [ "$(git log -1 --format=%s)" = again ]`, ""},
		{"branch and merge", "ws", `git checkout -q -b topic; echo t >t; git add t; git commit -qm t; git checkout -q main; echo m >m; git add m; git commit -qm m; git merge -q --no-edit topic; git branch -q copy topic`, ""},
		{"rebase", "ws", `git checkout -q -b topic HEAD~1; echo t >t; git add t; git commit -qm t; git rebase -q main; git checkout -q main; git merge -q --ff-only topic`, ""},
		{"interactive rebase, cherry-pick and revert", "ws", `for i in 1 2 3; do echo $i >f; git add f; git commit -qm $i; done; git rebase -q -i HEAD~2; git revert --no-edit HEAD; git cherry-pick --no-commit HEAD~1; git reset -q --hard`, ""},
		{"stash", "ws", `echo x >>a; git stash -q; git stash pop -q; grep -q x a; git checkout -q a`, ""},
		{"clean-up", "ws", `git gc -q; git pack-refs --all; git repack -adq; git prune; git fsck; git commit-graph write --reachable`, ""},
		{"fetch and pull", "ws", `git fetch -q origin; git pull -q --rebase origin main; [ -e o ]`, ""},
		{"tags and notes", "ws", `git tag v1; git tag -a -m v2 v2; git tag -d v1; git notes add -m n; git describe`, ""},
		{"bisect", "ws", `git bisect start; git bisect bad HEAD; git bisect good HEAD~1; git bisect reset`, ""},
		{"below the top", "ws", `mkdir d; cd d; echo d >d; git add d; git commit -qm d; git status`, ""},
		{"commit in a submodule", "ws", `cd sub; git fetch -q; git checkout -q -b topic; echo q >q; git add q; git commit -qm q; cd ..; git add sub; git commit -qm sub; git submodule status`, ""},
		{"a linked worktree", "linked", `echo l >l; git add l; git commit -qm l; git checkout -q -b more; git stash list; git rebase -q linked; git log -1; git status`, ""},
		{"a bare repository", "bare", `git update-ref refs/heads/topic main; git gc -q; git fetch -q ../remote main:fetched; git branch -q copy topic`, ""},
		{"status with protected files", "ws", `touch -d tomorrow a; git status; git diff; git log --stat >/dev/null`, ""},

		{"configuration", "ws", `git config user.nickname x`, "could not write config file .git/config"},
		{"a new remote", "ws", `git remote add more ../other`, "could not write config file .git/config"},
		{"a new worktree", "ws", `git worktree add -q new`, ".git/worktrees/new"},
		{"a new submodule", "ws", `git submodule --quiet add ../module more`, ".git/modules/more"},
		{"a new submodule of a clone", "other", `git submodule --quiet update --init`, "could not write config file .git/config"},
		{"update of a submodule", "ws", `git submodule --quiet update --remote`, "could not write config file"},
	}
	eachOnce(t, granting, func(t *testing.T, p *place, backend string) {
		p.makeRepositories()
		for _, tt := range cases {
			if !slices.Contains(testutil.Choice(tt.name, granting), backend) {
				continue
			}
			t.Run(tt.name, func(t *testing.T) {
				p.restoreRepositories(t)
				out, err := p.inside(backend, p.dir+"/"+tt.dir, "set -e\n"+tt.script)
				if (err != nil) != (tt.refused != "") || !strings.Contains(out, tt.refused) {
					t.Errorf("got %v: %s\nwant an error with %q", err, out, tt.refused)
				}
				if out, err := p.outside(p.dir+"/"+tt.dir, `git fsck && git log -1`); err != nil {
					t.Errorf("the repository afterwards: %v: %s", err, out)
				}
				if out, err := p.outside(p.dir, `find ws linked bare other -name '.codex*' -o -name .agents -o -name alternates`); err != nil || out != "" {
					t.Errorf("left behind: %v: %s", err, out)
				}
			})
		}
	})
}

// TestGitDoesNotRunWhatACommandWrote: in a granted repository a command cannot make the git of its user run a program. Each
// attack works outside of a sandbox.
func TestGitDoesNotRunWhatACommandWrote(t *testing.T) {
	needGit(t)
	cases := []struct {
		name, dir string
		attack    string
		user      string // what the user runs afterwards; $1/ran exists if that ran a program of the attack
	}{
		{"a hook", "ws", `cp payload/run .git/hooks/pre-commit`, `git commit -q --allow-empty -m x`},
		{"another directory for hooks", "ws", `mv .git/hooks .git/h; mkdir .git/hooks; cp payload/run .git/hooks/pre-commit`, `git commit -q --allow-empty -m x`},
		{"a link for hooks", "ws", `rm -rf .git/hooks; ln -s ../h .git/hooks; mkdir h; cp payload/run h/pre-commit`, `git commit -q --allow-empty -m x`},
		{"another directory renamed over hooks", "ws", `mkdir h; cp payload/run h/pre-commit; rm -rf .git/hooks; mv h .git/hooks`, `git commit -q --allow-empty -m x`},
		{"configuration", "ws", `git config core.fsmonitor "$1/ws/payload/run"`, `git status`},
		{"a path for hooks", "ws", `git config core.hooksPath "$1/ws/h"; mkdir h; cp payload/run h/pre-commit`, `git commit -q --allow-empty -m x`},
		{"its lock renamed", "ws", `cp .git/config .git/config.lock; git config -f .git/config.lock core.fsmonitor "$1/ws/payload/run"; mv -f .git/config.lock .git/config`, `git status`},
		{"a hard link", "ws", `ln .git/config c; git config -f c core.x y; printf '[core]\n\tfsmonitor = %s/ws/payload/run\n' "$1" >>c; cat c >.git/config`, `git status`},
		{"the configuration of a worktree", "ws", `git config -f .git/config.worktree core.fsmonitor "$1/ws/payload/run"`, `git status`},
		{"attributes", "ws", `echo '* filter=run' >.git/info/attributes`, `echo 3 >a; git add a`},
		{"another directory for attributes", "ws", `mv .git/info .git/i; mkdir .git/info; echo '* filter=run' >.git/info/attributes`, `echo 3 >a; git add a`},
		{"a common directory", "ws", `cp -r .git c; git config -f c/config core.fsmonitor "$1/ws/payload/run"; echo ../c >.git/commondir`, `git status`},
		{"a common directory by rename", "ws", `cp -r .git c; git config -f c/config core.fsmonitor "$1/ws/payload/run"; echo ../c >.git/x; mv .git/x .git/commondir`, `git status`},
		{"another repository", "ws", `mv .git g; cp -r g .git; git config -f .git/config core.fsmonitor "$1/ws/payload/run"`, `git status`},
		{"another repository by a file", "ws", `mv .git g; git config -f g/config core.fsmonitor "$1/ws/payload/run"; echo 'gitdir: g' >.git`, `git status`},
		{"objects of another repository", "ws", `echo "$1/other/.git/objects" >.git/objects/info/alternates`, `! git cat-file -e "$(git -C ../other rev-parse HEAD)" || touch "$1/ran"`},
		{"another directory for objects", "ws", `mv .git/objects .git/o; cp -r .git/o .git/objects; echo "$1/other/.git/objects" >.git/objects/info/alternates`, `! git cat-file -e "$(git -C ../other rev-parse HEAD)" || touch "$1/ran"`},
		{"the configuration of a submodule", "ws", `git config -f .git/modules/sub/config core.fsmonitor "$1/ws/payload/run"`, `git status`},
		{"a hook of a submodule", "ws", `cp payload/run .git/modules/sub/hooks/pre-commit`, `cd sub; git commit -q --allow-empty -m x`},
		{"another directory for a submodule", "ws", `mv .git/modules/sub .git/modules/s; cp -r .git/modules/s .git/modules/sub; git config -f .git/modules/sub/config core.fsmonitor "$1/ws/payload/run"`, `git status`},
		{"another directory for submodules", "ws", `mv .git/modules .git/m; cp -r .git/m .git/modules; git config -f .git/modules/sub/config core.fsmonitor "$1/ws/payload/run"`, `git status`},
		{"a repository for a new submodule", "ws", `cp -r .git/modules/sub .git/modules/more; git config -f .git/modules/more/config core.fsmonitor "$1/ws/payload/run"`, `git --git-dir=.git/modules/more --work-tree=sub status`},
		{"a common directory of a submodule", "ws", `cp -r .git/modules/sub c; git config -f c/config core.fsmonitor "$1/ws/payload/run"; git config -f c/config core.worktree "$1/ws/sub"; echo "$1/ws/c" >.git/modules/sub/commondir`, `git status`},
		{"another worktree", "ws", `mkdir e; cp -r .git c; git config -f c/config core.fsmonitor "$1/ws/payload/run"; cp -r .git/worktrees/linked .git/worktrees/evil
			echo "$1/ws/c" >.git/worktrees/evil/commondir; echo "$1/ws/e/.git" >.git/worktrees/evil/gitdir; echo "gitdir: $1/ws/.git/worktrees/evil" >e/.git`, `git worktree remove e`},
		{"the common directory of another worktree", "ws", `cp -r .git c; git config -f c/config core.fsmonitor "$1/ws/payload/run"; echo "$1/ws/c" >.git/worktrees/linked/commondir`, `cd ../linked; git status`},
		{"the configuration in a linked worktree", "linked", `git config core.fsmonitor "$1/ws/payload/run"`, `git status`},
		{"the common directory of a linked worktree", "linked", `g=$1/ws/.git/worktrees/linked; cp -r "$1/ws/.git" c; git config -f c/config core.fsmonitor "$1/ws/payload/run"; echo "$1/linked/c" >"$g/x"; mv -f "$g/x" "$g/commondir"`, `git status`},
		{"the own configuration of a linked worktree", "linked", `git config -f "$1/ws/.git/worktrees/linked/config.worktree" core.fsmonitor "$1/ws/payload/run"`, `git status`},
		{"a hook of a bare repository", "bare", `cp "$1/ws/payload/run" hooks/update`, `cd ../ws; git commit -q --allow-empty -m x; git push -q ../bare main`},
		{"the configuration of a bare repository", "bare", `cp config c; git config -f c core.hooksPath "$1/bare/h"; mv -f c config; mkdir h; cp "$1/ws/payload/run" h/update`, `cd ../ws; git commit -q --allow-empty -m x; git push -q ../bare main`},
	}
	t.Run("outside", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, users()[0])
		p.makeRepositories()
		for _, tt := range cases {
			p.restoreRepositories(t)
			out, err := p.outside(p.dir+"/"+tt.dir, tt.attack)
			must(t, os.RemoveAll(p.dir+"/ran"))
			user, err2 := p.outside(p.dir+"/"+tt.dir, tt.user)
			if !exists(p.dir + "/ran") {
				t.Errorf("%s: the attack does not work outside: %v: %s%v: %s", tt.name, err, out, err2, user)
			}
		}
	})
	eachOnce(t, granting, func(t *testing.T, p *place, backend string) {
		p.makeRepositories()
		for _, tt := range cases {
			if !slices.Contains(testutil.Choice(tt.name, granting), backend) {
				continue
			}
			t.Run(tt.name, func(t *testing.T) {
				p.restoreRepositories(t)
				dir := p.dir + "/" + tt.dir
				out, _ := p.inside(backend, dir, "touch tried\n"+tt.attack)
				if !exists(dir + "/tried") {
					t.Fatalf("nothing was tried: %s", out)
				}
				must(t, os.RemoveAll(p.dir+"/ran")) // by the command's own git
				user, _ := p.outside(dir, tt.user)
				if exists(p.dir + "/ran") {
					t.Errorf("the user's git ran a program of the command: %s%s", out, user)
				}
			})
		}
	})
}

// TestNoLinksInAGrantedRepository: with the broker, a command cannot put a symbolic link into a granted repository, so that the
// user's git writes through it. With the other backends it can (docs/sandbox.md).
func TestNoLinksInAGrantedRepository(t *testing.T) {
	needGit(t)
	attacks := []string{
		`ln -sf "$1/target" .git/COMMIT_EDITMSG`,
		`ln -sf "$1/target" l; mv -f l .git/COMMIT_EDITMSG`,
		`ln -sf "$1/target" l; rm .git/COMMIT_EDITMSG; ln l .git/COMMIT_EDITMSG`,
		`mkdir d; ln -s "$1/target" d/l; mv d .git/d; mv -f .git/d/l .git/COMMIT_EDITMSG`,
		`cd .git; rm COMMIT_EDITMSG; ln -s ../../target COMMIT_EDITMSG`,
		`perl -e 'rename(".git/refs", "r"); symlink($ARGV[0], "r/l"); rename("r", ".git/refs"); rename(".git/refs/l", ".git/COMMIT_EDITMSG")' "$1/target"`,
	}
	const user = `echo 3 >a; git commit -qam x`
	try := func(t *testing.T, p *place, attack string, run func(dir, script string) (string, error)) (written bool) {
		t.Helper()
		p.restoreRepositories(t)
		p.file("target", "kept")
		out, _ := run(p.ws, "touch tried; echo evil >.git/MERGE_MSG\n"+attack)
		if !exists(p.ws + "/tried") {
			t.Fatalf("nothing was tried: %s", out)
		}
		_, _ = p.outside(p.ws, user)
		b, err := os.ReadFile(p.dir + "/target")
		must(t, err)
		return string(b) != "kept"
	}
	control := newPlace(t, users()[0])
	control.makeRepositories()
	for _, attack := range attacks {
		if !try(t, control, attack, control.outside) {
			t.Errorf("the attack does not work outside: %s", attack)
		}
	}
	each(t, []string{"broker"}, func(t *testing.T, p *place, backend string) {
		p.makeRepositories()
		for _, attack := range attacks {
			if try(t, p, attack, func(dir, script string) (string, error) { return p.inside(backend, dir, script) }) {
				t.Errorf("the user's git wrote through a link: %s", attack)
			}
		}
	})
}
