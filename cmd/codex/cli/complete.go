package cli

import (
	"slices"
	"strings"

	"codex.internal/cmd/codex/cli/environments"
	"codex.internal/pkg/sandbox/launch"
	"github.com/urfave/cli/v2"
)

// completionWord is the last argument when a completion script asks what may come next.
const completionWord = "--generate-bash-completion"

// completer finds what may come next in a command line.
type completer struct {
	commands []*cli.Command
	flags    []cli.Flag
	path     []string
	operands int
}

// complete returns the words that may follow words, which stand behind the name of the
// program. A last word - asks for options. None means that files may follow, or anything:
// the shell then offers the names of files.
func complete(app *cli.App, words []string) []string {
	c := completer{commands: app.Commands, flags: app.Flags}
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch {
		case word == "-" && i == len(words)-1:
			return c.options()
		case word == "--":
			return nil
		case !strings.HasPrefix(word, "-") || word == "-":
			c.operand(word)
		case strings.Contains(word, "="):
		default:
			name := c.valueOf(word)
			if name == "" {
				continue
			}
			if i++; i == len(words) {
				return c.values(name)
			}
		}
	}
	return c.next()
}

// operand goes to the subcommand with a name, or counts an operand.
func (c *completer) operand(word string) {
	at := slices.IndexFunc(c.commands, func(sub *cli.Command) bool { return sub.HasName(word) })
	if at < 0 {
		c.operands++
		return
	}
	sub := c.commands[at]
	c.commands, c.flags, c.path = sub.Subcommands, sub.Flags, append(c.path, sub.Name)
}

// valueOf returns the name of the option whose value follows an option; empty: none
// does.
func (c *completer) valueOf(word string) string {
	name := strings.TrimLeft(word, "-")
	for _, flag := range c.flags {
		value, ok := flag.(cli.DocGenerationFlag)
		if ok && value.TakesValue() && slices.Contains(flag.Names(), name) {
			return flag.Names()[0]
		}
	}
	return ""
}

// options are those of the command.
func (c *completer) options() []string {
	var all []string
	for _, flag := range append(slices.Clone(c.flags), cli.HelpFlag) {
		if v, ok := flag.(cli.VisibleFlag); ok && !v.IsVisible() {
			continue
		}
		for _, name := range flag.Names() {
			dashes := "--"
			if len(name) == 1 {
				dashes = "-"
			}
			if word := dashes + name; !slices.Contains(all, word) {
				all = append(all, word)
			}
		}
	}
	return all
}

// next are the subcommands, or what the operand of a command may be.
func (c *completer) next() []string {
	if c.operands > 0 && !slices.Equal(c.path, []string{"environments", "check"}) {
		return nil
	}
	var names []string
	for _, sub := range c.commands {
		if !sub.Hidden {
			names = append(names, sub.Name)
		}
	}
	switch strings.Join(c.path, " ") {
	case "completion":
		return []string{"bash", "zsh", "fish"}
	case "environments check":
		return environmentIDs()
	}
	return names
}

// values are those that an option may have.
func (c *completer) values(option string) []string {
	switch option {
	case "env":
		return environmentIDs()
	case "sandbox":
		if slices.Contains(c.path, "exec") {
			return []string{"read-only", "workspace-write", "danger-full-access"}
		}
		return []string{"read-only", "workspace-write"}
	case "ask":
		return []string{"never", "on-failure", "always"}
	case "backend", "sandbox-backend":
		return launch.Backends[:]
	case "when-full":
		return []string{"drop-oldest", "wait"}
	case "signal":
		return []string{"INT", "TERM", "KILL", "HUP", "QUIT", "USR1", "USR2"}
	case "role":
		return []string{"executor", "harness", "both"}
	case "ws-auth":
		return []string{"capability-token", "signed-bearer-token"}
	case "log-level":
		return []string{"debug", "info", "warn", "error"}
	case "log-format":
		return []string{"text", "json"}
	case "target":
		return []string{"linux", "windows"}
	}
	return nil
}

// environmentIDs are those of the configuration; none if it cannot be read, for a press
// of a key is no time for errors.
func environmentIDs() []string {
	config, err := environments.Load("")
	if err != nil {
		return nil
	}
	ids := make([]string, 0, len(config.Environments))
	for _, e := range config.Environments {
		ids = append(ids, e.ID)
	}
	return ids
}
