package cli

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

// The scripts ask the program itself what could come next, with the flag that
// the command line library answers. They do not ask behind a --: what stands
// there is another program's, and codex would run it instead of answering. The
// options they ask for with a -, for a -- that is the start of one counts too.
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
complete -o bashdefault -o default -F _codex_complete codex
`

const zshCompletion = `#compdef codex
_codex() {
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
compdef _codex codex
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
complete -c codex -f -a '(__codex_complete)'
`

func completionCommand() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print a script that completes codex commands in your shell",
		ArgsUsage: "bash|zsh|fish",
		Description: `Examples:
   source <(codex completion bash)          # this shell; put it into ~/.bashrc to keep it
   codex completion zsh > ~/.zfunc/_codex   # a directory of your fpath
   codex completion fish > ~/.config/fish/completions/codex.fish`,
		OnUsageError: onUsageError,
		Action: func(c *cli.Context) error {
			script := ""
			switch c.Args().First() {
			case "bash":
				script = bashCompletion
			case "zsh":
				script = zshCompletion
			case "fish":
				script = fishCompletion
			default:
				return usagef("completion needs the name of a shell: bash, zsh or fish, not %q", c.Args().First())
			}
			_, err := fmt.Fprint(c.App.Writer, script)
			return err
		},
	}
}
