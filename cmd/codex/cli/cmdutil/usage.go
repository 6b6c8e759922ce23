package cmdutil

import (
	"fmt"
	"slices"
	"strings"

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
	hint := commandHint(above, word)
	if meant := similar(word, names); hint == "" && meant != "" {
		hint = fmt.Sprintf("did you mean %s?", meant)
	}
	return Usagef("%s", strings.TrimSpace(fmt.Sprintf("%s has no command %q; %s", above.HelpName, word, hint))+" see "+above.HelpName+" --help")
}

// commandHint returns the hint for a word that is not a subcommand, or "". At the top level, the names of the commands
// of codex remote and their hints count, too.
func commandHint(above *cli.Command, word string) string {
	hint := hintFor(above.HelpName, word)
	if strings.Contains(above.HelpName, " ") || hint != "" {
		return hint
	}
	at := slices.IndexFunc(above.Subcommands, func(c *cli.Command) bool { return c.Name == "remote" })
	if at < 0 {
		return ""
	}
	if above.Subcommands[at].Command(word) != nil {
		return "did you mean codex remote " + word + "?"
	}
	return hintFor(above.HelpName+" remote", word)
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
