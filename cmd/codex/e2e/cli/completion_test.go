package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
)

// shells says how to start each shell without the user's files, and how it loads the script at
// SCRIPT.
var shells = map[string][]string{
	"bash":                     {"bash", "--norc", "--noprofile", "-i"},
	"bash with its completion": {"bash", "--norc", "--noprofile", "-i"},
	"zsh":                      {"zsh", "-f", "-i"},
	"zsh by fpath":             {"zsh", "-f", "-i"},
	"fish":                     {"fish", "--no-config", "-i", "-C", "function fish_prompt; echo 'READY> '; end"},
}

var loads = map[string]string{
	"bash":                     "bind 'set enable-bracketed-paste off'; source SCRIPT",
	"bash with its completion": "bind 'set enable-bracketed-paste off'; source /usr/share/bash-completion/bash_completion; source SCRIPT",
	"zsh":                      "autoload -Uz compinit; compinit -u -d NONE; source SCRIPT",
	"zsh by fpath":             "fpath=(FOLDER $fpath); autoload -Uz compinit; compinit -u -d NONE",
	"fish":                     "source SCRIPT",
}

// hostileNames are possible names of a server's files. A shell must quote the first ones
// without expanding them; the last one must not reach the terminal.
var hostileNames = []string{
	"plain", "sp ace", "do$(touch HERE)", "back`touch HERE`", "semi;touch HERE", "quo'te\"d", "col:on", "eq=ual", "gl*b", "til~de", "bang!x",
	"über", "es\x1b]0;title\acape", "tab\tbed", "new\nline",
}

// completions are lines with Tab, and the arguments that they are completed to. R is a directory of the server.
var completions = []struct{ typed, want string }{
	{"remote ca\t", "<remote><cat>"},
	{"remote run --sandbox re\t", "<remote><run><--sandbox><read-only>"},
	{"remote run --sandbox=w\t", "<remote><run><--sandbox=workspace-write>"},
	{"remote run --env b\t", "<remote><run><--env><build>"},
	{"remote run --time\t", "<remote><run><--timeout>"},
	{"exec-server token create --role ad\t", "<exec-server><token><create><--role><admin>"},
	{"remote cp loc\t", "<remote><cp><local-file>"},
	{"remote --env build cat loc\t", "<remote><--env><build><cat><loc>"},
	{"remote --env build cp :R/pl\t", "<remote><--env><build><cp><:R/plain>"},
	{"remote --env build cat R/sp\t", "<remote><--env><build><cat><R/sp ace>"},
	{"remote --env build cat R/do\t", "<remote><--env><build><cat><R/do$(touch HERE)>"},
	{"remote --env build cat R/back\t", "<remote><--env><build><cat><R/back`touch HERE`>"},
	{"remote --env build cat R/semi\t", "<remote><--env><build><cat><R/semi;touch HERE>"},
	{"remote --env build cat R/quo\t", "<remote><--env><build><cat><R/quo'te\"d>"},
	{"remote --env build cat R/col\t", "<remote><--env><build><cat><R/col:on>"},
	{"remote --env build cp :R/col\t", "<remote><--env><build><cp><:R/col:on>"},
	{"remote --env build cat R/eq\t", "<remote><--env><build><cat><R/eq=ual>"},
	{"remote --env build cat R/gl\t", "<remote><--env><build><cat><R/gl*b>"},
	{"remote --env build cat R/til\t", "<remote><--env><build><cat><R/til~de>"},
	{"remote --env build cat R/ban\t", "<remote><--env><build><cat><R/bang!x>"},
	{"remote --env build cat R/üb\t", "<remote><--env><build><cat><R/über>"},
	{"remote --env build cat R/es\t", "<remote><--env><build><cat><R/es>"},
	{"remote --env build cat R/tab\t", "<remote><--env><build><cat><R/tab>"},
	{"remote --env build cat R/.h\t", "<remote><--env><build><cat><R/.hidden>"},
	{"remote --env build ls R/su\tin\t", "<remote><--env><build><ls><R/sub/inner>"},
	{"remote --env build cp :R/su\tin\t", "<remote><--env><build><cp><:R/sub/inner>"},
	{"remote --env build run --cwd R/\tx", "<remote><--env><build><run><--cwd><R/sub/x>"},
	{"remote run -- rm -rf \t", "<remote><run><--><rm><-rf><local-file>"},
}

// TestCompletionInShells presses Tab in real shells, and checks the arguments that the
// program gets.
func TestCompletionInShells(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	_, url := harness.Server(t)
	remote := filepath.Join(t.TempDir(), "r")
	harness.Must(t, os.MkdirAll(filepath.Join(remote, "sub"), 0o755))
	for _, name := range append(hostileNames, "sub/inner", ".hidden") {
		harness.Must(t, os.WriteFile(filepath.Join(remote, name), nil, 0o644))
	}
	for name, args := range shells {
		t.Run(name, func(t *testing.T) { completeIn(t, name, args, url, remote) })
	}
}

// completeIn types lines with Tab in a shell.
func completeIn(t *testing.T, name string, args []string, url, remote string) {
	_, err := exec.LookPath(args[0])
	testutil.Need(t, "shell "+args[0], err, exec.ErrNotFound)
	home := t.TempDir()
	here := t.TempDir()
	bin, calls := filepath.Join(home, "bin"), filepath.Join(home, "calls")
	harness.Must(t, os.MkdirAll(bin, 0o755))
	// If a completion script calls this program, it prints candidates. Otherwise it prints its arguments.
	harness.Must(t, os.WriteFile(filepath.Join(bin, "codex"), []byte(`#!/bin/sh
for last; do :; done
if [ "$last" = --generate-bash-completion ]; then
  echo "$*" >> '`+calls+`'
  exec '`+harness.Codex+`' "$@"
fi
printf 'ARGS'; printf '<%s>' "$@"; echo
`), 0o755))
	harness.Must(t, os.WriteFile(filepath.Join(here, "local-file"), nil, 0o644))
	harness.Must(t, os.WriteFile(filepath.Join(home, "environments.toml"), []byte("[[environments]]\nid = \"build\"\nurl = \""+url+"\"\n"), 0o600))
	script, err := exec.Command(harness.Codex, "completion", args[0]).Output()
	harness.Must(t, err)
	at := filepath.Join(home, "_codex")
	harness.Must(t, os.WriteFile(at, script, 0o644))
	for _, kv := range []string{"HOME=" + home, "CODEX_HOME=" + home, "PS1=READY> ", "TERM=dumb", "HISTFILE=/dev/null", "INPUTRC=/dev/null",
		"LC_ALL=C.UTF-8", "XDG_CONFIG_HOME=" + home, "XDG_DATA_HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH")} {
		key, value, _ := strings.Cut(kv, "=")
		t.Setenv(key, value)
	}
	t.Chdir(here)
	u := harness.AtTerminalOf(t, args[0], args[1:]...)
	u.Expect("READY> ")
	u.Types(strings.NewReplacer("SCRIPT", at, "FOLDER", home, "NONE", filepath.Join(home, "dump")).Replace(loads[name]) + "\n")
	u.Expect("READY> ")
	for _, tt := range completions {
		u.Types("codex " + strings.ReplaceAll(tt.typed, "R/", remote+"/") + "\n")
		u.Expect("ARGS" + strings.ReplaceAll(tt.want, "R/", remote+"/"))
		u.Expect("READY> ")
	}
	// This shows all names in a list. Names with control characters are not in it.
	if name == "fish" { // a second Tab selects there
		u.Types("codex remote --env build cat " + remote + "/\t")
	} else {
		u.Types("codex remote --env build cat " + remote + "/\t\t")
		u.Expect("plain")
	}
	u.Types("\x15\n") // the line is removed
	u.Types("codex done\n")
	u.Expect("ARGS<done>")
	if strings.Contains(u.Screen(), "\x1b]0;title") {
		t.Error("the name of a file has set the title of the terminal")
	}
	if _, err := os.Stat("HERE"); err == nil {
		t.Error("the name of a file was executed")
	}
	called, err := os.ReadFile(calls)
	if err != nil || strings.Contains(string(called), "rm -rf") {
		t.Errorf("what stands behind -- was run for a press of a key: %v, %q", err, called)
	}
}
