package cli

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/cmd/codex/cli/environments"
	"codex.internal/cmd/codex/cli/remote"
	"codex.internal/cmd/codex/cli/sandbox"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/host/terminal"
	"codex.internal/pkg/sandbox/runner"
	"github.com/urfave/cli/v2"
)

// completionWord is the last argument when a completion script asks for the next words.
const completionWord = "--generate-bash-completion"

// completingVariable names the variable with the word before the cursor. Scripts of older versions do not set
// it: they filter the words themselves.
const completingVariable = "CODEX_COMPLETING"

// The first line of an answer says whether the names of local files are candidates too.
const (
	onlyWords = "words"
	orFiles   = "files"
)

// completer finds the words that may come next in a command line.
type completer struct {
	command  *cli.Command
	path     []string
	operands int
	given    map[string]string // values of options, by the first name of the option
	pending  string            // the option that needs a value next; empty: none
}

// choice is the set of possible next words: a list, or files and handles.
type choice struct {
	list     []string
	from     cmdutil.OperandKind // OfferNothing: only the list
	onlyDirs bool                // of OfferRemoteFiles
}

func newCompleter(app *cli.App) completer {
	return completer{command: &cli.Command{Subcommands: app.Commands, Flags: app.Flags}, given: make(map[string]string)}
}

func listed(words ...string) choice { return choice{list: slices.Clone(words)} }

// words returns values as strings.
func words[W ~string](values []W) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = string(v)
	}
	return list
}

// printCompletions prints the possible next words after words, which follow the name of the
// program.
func printCompletions(to io.Writer, app *cli.App, words []string) {
	typed, ok := os.LookupEnv(completingVariable)
	if !ok {
		for _, word := range complete(app, words) {
			fmt.Fprintln(to, word)
		}
		return
	}
	kind, found := completions(app, words, typed)
	fmt.Fprintln(to, kind)
	for _, word := range found {
		fmt.Fprintln(to, word)
	}
}

// completions returns the candidates for the word typed, which follows words. kind says whether local
// files are candidates, too. Names with control characters are omitted.
func completions(app *cli.App, words []string, typed string) (kind string, found []string) {
	c := newCompleter(app)
	next := c.follow(words)
	prefix := ""
	switch option, _, hasValue := strings.Cut(typed, "="); {
	case c.pending != "":
	case strings.HasPrefix(typed, "--") && hasValue:
		prefix = option + "="
		next = listed()
		if name := c.valueOf(option); name != "" {
			next = c.values(name)
		}
	case strings.HasPrefix(typed, "-") && typed != "-" || typed == "-" && next.from != cmdutil.OfferBothFiles:
		next = listed(c.options()...)
	}
	value := strings.TrimPrefix(typed, prefix)
	if next.from == cmdutil.OfferBothFiles && !strings.HasPrefix(value, ":") {
		next.from = cmdutil.OfferLocalFiles
	}
	switch next.from {
	case cmdutil.OfferLocalFiles:
		return orFiles, nil
	case cmdutil.OfferRemoteFiles, cmdutil.OfferBothFiles:
		next.list = remote.CompletePaths(c.given, value, next.onlyDirs)
	case cmdutil.OfferHandles:
		next.list = remote.CompleteHandles(c.given)
	}
	for _, word := range next.list {
		if strings.HasPrefix(word, value) && terminal.Text(word) == word {
			found = append(found, prefix+word)
		}
	}
	return onlyWords, found
}

// complete returns the words that may follow words, for a script that filters them. If the last word is -, it
// returns options. No words means that local files, or anything, may follow.
func complete(app *cli.App, words []string) []string {
	c := newCompleter(app)
	if last := len(words) - 1; last >= 0 && words[last] == "-" && !slices.Contains(words, "--") {
		if c.follow(words[:last]); c.pending == "" {
			return c.options()
		}
	}
	return c.follow(words).list
}

// follow parses words, and returns the possible next words.
func (c *completer) follow(words []string) choice {
	for i := 0; i < len(words); i++ {
		word := words[i]
		option, value, hasValue := strings.Cut(word, "=")
		switch {
		case word == "--":
			return choice{from: cmdutil.OfferLocalFiles}
		case !strings.HasPrefix(word, "-") || word == "-":
			c.operand(word)
		case hasValue:
			if name := c.valueOf(option); name != "" {
				c.given[name] = value
			}
		default:
			name := c.valueOf(word)
			if name == "" {
				continue
			}
			if i++; i == len(words) {
				c.pending = name
				return c.values(name)
			}
			c.given[name] = words[i]
		}
	}
	return c.next()
}

// operand enters the subcommand with a name, or counts an operand.
func (c *completer) operand(word string) {
	sub := c.command.Command(word)
	if sub == nil {
		c.operands++
		return
	}
	c.command, c.path = sub, append(c.path, sub.Name)
}

// valueOf returns the name of an option if the next word is its value; else it returns an empty name.
func (c *completer) valueOf(word string) string {
	name := strings.TrimLeft(word, "-")
	for _, flag := range c.command.Flags {
		value, ok := flag.(cli.DocGenerationFlag)
		if ok && value.TakesValue() && slices.Contains(flag.Names(), name) {
			return flag.Names()[0]
		}
	}
	return ""
}

// options returns the visible options of the command.
func (c *completer) options() []string {
	var all []string
	for _, flag := range c.command.Flags {
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

// next returns the subcommands, or what the command declares about its operands.
func (c *completer) next() choice {
	if c.operands == 0 && len(c.command.Subcommands) > 0 {
		var names []string
		for _, sub := range c.command.Subcommands {
			if !sub.Hidden {
				names = append(names, sub.Name)
			}
		}
		return listed(names...)
	}
	declared := cmdutil.OperandsOf(c.command)
	switch {
	case declared == nil || declared.Last > 0 && c.operands >= declared.Last:
		return listed()
	case declared.Kind == cmdutil.OfferWords:
		return listed(declared.Words()...)
	default:
		return choice{from: declared.Kind}
	}
}

// values returns the values that an option may have.
func (c *completer) values(option string) choice {
	onServer := len(c.path) > 0 && c.path[0] == "remote"
	switch option {
	case "env":
		return listed(environments.IDs()...)
	case "sandbox":
		return listed("read-only", "workspace-write", "danger-full-access")
	case "permission-profile":
		return listed(sandbox.ProfileNames()...)
	case "profile":
		return listed(sandbox.ConfigProfiles()...)
	case "ask":
		return listed("never", "on-failure", "always")
	case "backend", "sandbox-backend":
		return listed(runner.Backends[:]...)
	case "when-full":
		return listed("drop-oldest", "wait")
	case "signal":
		return listed("INT", "TERM", "KILL", "HUP", "QUIT", "USR1", "USR2")
	case "role":
		if slices.Contains(c.path, "exec-server") {
			return listed(words(wsauth.Roles)...)
		}
		return listed(append([]string{"executor", "harness", "both"}, words(wsauth.Roles)...)...)
	case "max-sandbox":
		return listed(words(wsauth.Sandboxes)...)
	case "ws-auth":
		return listed("capability-token", "signed-bearer-token")
	case "log-level":
		return listed("debug", "info", "warn", "error")
	case "log-format":
		return listed("text", "json")
	case "target":
		return listed("linux", "windows")
	case "cwd", "writable-root":
		if onServer {
			return choice{from: cmdutil.OfferRemoteFiles, onlyDirs: true}
		}
	}
	if c.namesFile(option) {
		return choice{from: cmdutil.OfferLocalFiles}
	}
	return listed()
}

// namesFile reports whether the value of an option is, or contains, the name of a file or directory.
func (c *completer) namesFile(option string) bool {
	for _, flag := range c.command.Flags {
		if f, ok := flag.(cli.DocGenerationFlag); ok && slices.Contains(flag.Names(), option) {
			return placeholder.MatchString(f.GetUsage())
		}
	}
	return false
}

// placeholder matches the placeholder of a file in the usage of an option.
var placeholder = regexp.MustCompile("`[^`]*(FILE|DIR|PATH|PROGRAM)[^`]*`")
