package cmdutil

import (
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"
)

// OnUsageError converts an error of the library's flag parser to a usage error that names the help to read.
func OnUsageError(c *cli.Context, err error, _ bool) error {
	return Usagef("%w; see %s --help", err, c.Command.HelpName)
}

// UnknownCommand returns the usage error for a first operand that is not a subcommand of c.
func UnknownCommand(c *cli.Context) error { return NoCommand(c.Command, c.Args().First()) }

// NoCommand returns the usage error for a word that is not a subcommand.
func NoCommand(above *cli.Command, word string) error {
	var names []string
	for _, sub := range above.Subcommands {
		names = append(names, sub.Name)
	}
	hint := ""
	if meant := otherWord(above, word); meant != "" {
		hint = fmt.Sprintf(" did you mean %s?", meant)
	} else if meant := similar(word, names); meant != "" {
		hint = fmt.Sprintf(" did you mean %s?", meant)
	}
	return Usagef("%s has no command %q;%s see %s --help", above.HelpName, word, hint, above.HelpName)
}

// otherWords are commands of other programs, and ours that do the same.
var otherWords = map[string]string{
	"ssh": "shell", "scp": "cp", "copy": "cp", "rsync": "sync", "port-forward": "forward", "tunnel": "forward", "inspect": "ps --json",
	"list": "ps", "jobs": "ps", "dir": "ls", "remove": "rm", "rename": "mv", "tail": "logs --tail 10",
}

// otherWord returns the command that a user of another program means by a word, or "". At the top level that is also
// the name of a command of codex remote.
func otherWord(above *cli.Command, word string) string {
	remote := above
	if above.HelpName == "codex" {
		at := slices.IndexFunc(above.Subcommands, func(c *cli.Command) bool { return c.Name == "remote" })
		if at < 0 {
			return ""
		}
		remote = above.Subcommands[at]
	}
	if remote.Name != "remote" {
		return ""
	}
	if slices.ContainsFunc(remote.Subcommands, func(c *cli.Command) bool { return c.Name == word }) {
		return "codex remote " + word
	}
	if ours := otherWords[word]; ours != "" {
		return "codex remote " + ours
	}
	return ""
}

// similar returns the name that has the longest common prefix with a typed word. Of several such names it
// returns the shortest. It returns "" if no name has two bytes in common with the word. The library's
// SuggestFlag and SuggestCommand return a name for every word, however different it is.
func similar(word string, names []string) string {
	const enough = 2 // common bytes; almost every word has one byte in common with some name
	best, length := "", enough
	for _, name := range names {
		n := 0
		for n < min(len(word), len(name)) && word[n] == name[n] {
			n++
		}
		if n > length || n == length && (best == "" || len(name) < len(best)) {
			best, length = name, n
		}
	}
	return best
}
