package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"github.com/urfave/cli/v2"
)

// The scripts ask the program itself what could come next: see complete. They do not ask behind a --: what stands
// there is another program's, and codex would run it instead of answering. The
// options they ask for with a -, for a -- that is the start of one counts too.
// @NAME@ is the name of the program: see completedName.
const bashCompletion = `_codex_complete() {
  local cur words
  cur="${COMP_WORDS[COMP_CWORD]}"
  words=("${COMP_WORDS[@]:0:$COMP_CWORD}")
  COMPREPLY=()
  [[ " ${words[*]} " != *" -- "* ]] || return 0
  if [[ "$cur" == -* ]]; then
    words+=(-)
  fi
  COMPREPLY=($(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null)" -- "$cur"))
}
complete -o bashdefault -o default -F _codex_complete @NAME@
`

const zshCompletion = `#compdef @NAME@
_@NAME@() {
  local -a opts
  local cur="${words[-1]}"
  if (( ${words[(i)--]} < ${#words} )); then
    _files
    return
  fi
  if [[ "$cur" == -* ]]; then
    opts=("${(@f)$(${words[@]:0:#words[@]-1} - --generate-bash-completion 2>/dev/null)}")
  else
    opts=("${(@f)$(${words[@]:0:#words[@]-1} --generate-bash-completion 2>/dev/null)}")
  fi
  if [[ -n "${opts[1]}" ]]; then
    _describe 'values' opts
  else
    _files
  fi
}
# Loaded from a directory of fpath, this file is the body of the function itself.
if [[ "${funcstack[1]}" == "_@NAME@" ]]; then
  _@NAME@ "$@"
else
  compdef _@NAME@ @NAME@
fi
`

const fishCompletion = `function __codex_complete
  set -l words (commandline -opc)
  set -l cur (commandline -ct)
  set -l asked $words
  string match -q -- '-*' $cur; and set -a asked -
  set -l found
  contains -- -- $words; or set found ($asked --generate-bash-completion 2>/dev/null | string match -- $cur'*')
  if set -q found[1]
    printf '%s\n' $found
  else
    __fish_complete_path $cur
  end
end
complete -c @NAME@ -f -a '(__codex_complete)'
`

// plainName is a name that needs no quotes in any shell.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)

// completedName returns the name that scripts complete: the one by which the
// program was called. scripts/install --name can install it beside OpenAI's codex,
// whose completions must stay as they are.
func completedName(arg0 string) string {
	if name := filepath.Base(arg0); plainName.MatchString(name) {
		return name
	}
	return "codex"
}

func completionCommand() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print a script that completes codex commands in your shell",
		ArgsUsage: "bash|zsh|fish",
		Description: `Examples:
   source <(codex completion bash)          # this shell; put it into ~/.bashrc to keep it
   codex completion zsh > ~/.zfunc/_codex   # a directory of your fpath
   codex completion fish > ~/.config/fish/completions/codex.fish
The script completes the name under which the program was called.`,
		OnUsageError: cmdutil.OnUsageError,
		Action: func(c *cli.Context) error {
			script := ""
			if c.NArg() > 1 {
				return cmdutil.Usagef("completion takes one shell, got %q too", c.Args().Get(1))
			}
			switch c.Args().First() {
			case "bash":
				script = bashCompletion
			case "zsh":
				script = zshCompletion
			case "fish":
				script = fishCompletion
			default:
				return cmdutil.Usagef("completion needs the name of a shell: bash, zsh or fish, not %q", c.Args().First())
			}
			_, err := fmt.Fprint(c.App.Writer, strings.ReplaceAll(script, "@NAME@", completedName(os.Args[0])))
			return err
		},
	}
}
