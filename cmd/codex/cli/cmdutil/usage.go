package cmdutil

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

// OnUsageError makes an error of the library's flag parser a usage error, which names the help to read.
func OnUsageError(c *cli.Context, err error, _ bool) error {
	return Usagef("%w; see %s --help", err, c.Command.HelpName)
}

// UnknownCommand returns the usage error of a first operand that is no command below c.
func UnknownCommand(c *cli.Context) error { return NoCommand(c.Command, c.Args().First()) }

// NoCommand returns the usage error for a word that is not a subcommand.
func NoCommand(above *cli.Command, word string) error {
	var names []string
	for _, sub := range above.Subcommands {
		names = append(names, sub.Name)
	}
	hint := ""
	if meant := similar(word, names); meant != "" {
		hint = fmt.Sprintf(" did you mean %s?", meant)
	}
	return Usagef("%s has no command %q;%s see %s --help", above.HelpName, word, hint, above.HelpName)
}

// similar returns the name that has the longest beginning in common with a typed word, the shortest of
// several, or "" if none has two bytes in common. The library's SuggestFlag and SuggestCommand return a name
// for every word, however far it is.
func similar(word string, names []string) string {
	const enough = 2 // bytes in common; almost every word has one byte in common with some name
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
