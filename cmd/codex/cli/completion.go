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

// The scripts ask the program for the next words: see complete. CODEX_COMPLETING has the word before the cursor,
// and the first line of the answer says whether local files are candidates. The scripts do not ask behind --:
// these words belong to another program, and codex would run it instead of answering.
//
// Answers contain names from a server, so no shell may expand them. Bash reads them line by line, because compgen
// -W would run $(...) in the name of a file, and quotes them. Bash splits words at colons and equals signs; the
// script joins them, and removes from the replies the text before the last of these. @NAME@ is the name of the
// program: see completedName.
const bashCompletion = `_codex_complete() {
  local line="${COMP_LINE:0:COMP_POINT}" words=() i word raw="" breaks="" prefix="" kind="" reply
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word="${COMP_WORDS[i]}"
    if ((i == 0)) || [[ "$line" == [[:blank:]]* ]]; then
      line="${line#"${line%%[![:blank:]]*}"}"
      ((i == 0)) || words+=("$raw")
      raw=""
    fi
    ((i < COMP_CWORD)) || word="$line"
    raw+="$word"
    line="${line#"$word"}"
  done
  words+=("$raw")
  for i in "${!words[@]}"; do
    case "${words[i]}" in
      \'*) word="${words[i]#\'}" words[i]="${word%\'}" ;;
      \"*) word="${words[i]#\"}" words[i]="${word%\"}" ;;
      *) IFS= read word <<< "${words[i]}"; words[i]="$word" ;;
    esac
  done
  word="${words[-1]}"
  unset 'words[-1]'
  words[0]="${words[0]/#\~/"$HOME"}"
  COMPREPLY=()
  [[ " ${words[*]} " != *" -- "* ]] || return 0
  if [[ "$raw" != [\'\"]* ]]; then
    [[ "$COMP_WORDBREAKS" != *:* ]] || breaks+=:
    [[ "$COMP_WORDBREAKS" != *=* ]] || breaks+==
    [[ -z "$breaks" ]] || prefix="${word%"${word##*[$breaks]}"}"
  fi
  {
    IFS= read -r kind
    while IFS= read -r reply; do
      reply="${reply#"$prefix"}"
      case "$raw" in
        \'*) [[ "$reply" != *\'* ]] || continue ;;
        \"*) [[ "$reply" != *[\"\$\\\!$'\x60']* ]] || continue ;;
        *)
          printf -v reply %q "$reply"
          [[ -z "$prefix" ]] || reply="${reply#\\~}"
          ;;
      esac
      COMPREPLY+=("$reply")
    done
  } < <(CODEX_COMPLETING="$word" "${words[@]}" --generate-bash-completion 2>/dev/null </dev/null)
  if [[ "$kind" == words ]]; then
    compopt +o default +o bashdefault 2>/dev/null
  fi
  if ((${#COMPREPLY[@]} == 1)) && [[ "${COMPREPLY[0]}" == */ ]]; then
    compopt -o nospace 2>/dev/null
  fi
  return 0
}
complete -o bashdefault -o default -F _codex_complete @NAME@
`

const zshCompletion = `#compdef @NAME@
_@NAME@() {
  local -a given found dirs others
  local kind
  given=("${(@Q)words[1,CURRENT-1]}")
  if (( ${given[(I)--]} )); then
    _files
    return
  fi
  given[1]="${given[1]/#\~/$HOME}"
  found=("${(@f)$(CODEX_COMPLETING="${(Q)PREFIX}" "${given[@]}" --generate-bash-completion 2>/dev/null </dev/null)}")
  kind="${found[1]}"
  shift found
  if [[ "$kind" != words ]]; then
    [[ "$PREFIX" != --*=* ]] || compset -P '*='
    _files
    return
  fi
  dirs=("${(@M)found:#*/}")
  others=("${(@)found:#*/}")
  (( ! ${#dirs} )) || compadd -S '' -a dirs
  (( ! ${#others} )) || compadd -a others
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
  set -l plain (string unescape -- $cur); or set plain $cur
  set words[1] (string replace -r '^~' $HOME -- $words[1])
  set -l found
  contains -- -- $words; or set found (CODEX_COMPLETING="$plain" $words --generate-bash-completion 2>/dev/null </dev/null)
  if test "$found[1]" = words
    set -e found[1]
    printf '%s\n' $found
  else
    __fish_complete_path $cur
  end
end
complete -c @NAME@ -f -a '(__codex_complete)'
`

// plainName is a name that needs no quotes in any shell.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)

// completedName returns the name that scripts complete: the name under which the
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
		Usage:     "print a shell script that completes codex commands",
		ArgsUsage: "bash|zsh|fish",
		Description: `Examples:
   source <(codex completion bash)          # in ~/.bashrc: for every shell
   codex completion zsh > ~/.zfunc/_codex   # a directory of your fpath
   codex completion fish > ~/.config/fish/completions/codex.fish
The script completes the name under which the program was called.`,
		Flags: []cli.Flag{&cmdutil.Operands{Kind: cmdutil.OfferWords, Last: 1, Words: func() []string { return []string{"bash", "zsh", "fish"} }}},
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
