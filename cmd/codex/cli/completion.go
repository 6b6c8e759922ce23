package cli

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

// The scripts ask the program itself what could come next, with the flag that
// the command line library answers.
const bashCompletion = `_codex_complete() {
  local cur words
  cur="${COMP_WORDS[COMP_CWORD]}"
  words=("${COMP_WORDS[@]:0:$COMP_CWORD}")
  if [[ "$cur" == -* ]]; then
    words+=("$cur")
  fi
  COMPREPLY=($(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null)" -- "$cur"))
}
complete -o bashdefault -o default -F _codex_complete codex
`

const zshCompletion = `#compdef codex
_codex() {
  local -a opts
  local cur="${words[-1]}"
  if [[ "$cur" == -* ]]; then
    opts=("${(@f)$(${words[@]:0:#words[@]-1} ${cur} --generate-bash-completion 2>/dev/null)}")
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
				fish, err := c.App.ToFishCompletion()
				if err != nil {
					return fmt.Errorf("make the fish completion: %w", err)
				}
				script = fish
			default:
				return usagef("completion needs the name of a shell: bash, zsh or fish, not %q", c.Args().First())
			}
			_, err := fmt.Fprint(c.App.Writer, script)
			return err
		},
	}
}
