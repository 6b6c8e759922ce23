package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"codex.internal/cmd/codex/cli/environments"
	"codex.internal/cmd/codex/cli/remote"
	"codex.internal/cmd/codex/cli/sandbox"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/host/terminal"
	"codex.internal/pkg/sandbox/runner"
	"codex.internal/pkg/wire/pattern"
	"github.com/urfave/cli/v2"
)

// completionWord is the last argument when a completion script asks what may come next.
const completionWord = "--generate-bash-completion"

// completingVariable has the word before the cursor. A script of an older codex does not set
// it: it looks for the word's beginning itself.
const completingVariable = "CODEX_COMPLETING"

// What the first line of an answer says: whether files of this machine may follow.
const (
	onlyWords = "words"
	orFiles   = "files"
)

// source is where the words come from that may be completed.
type source int

const (
	fromList   source = iota // of the program
	localFiles               // the shell offers the names of files
	remoteFiles
	remoteMarked // remoteFiles behind a colon, else localFiles
	remoteDirs
	handles // of detached processes
)

// completer finds what may come next in a command line.
type completer struct {
	commands []*cli.Command
	flags    []cli.Flag
	path     []string
	operands int
	given    map[string]string // values of options, by their first names
	pending  string            // the option whose value comes next; empty: none
}

// choice is what may come next: a list, or words of another source.
type choice struct {
	list []string
	from source
}

func listed(words ...string) choice { return choice{list: words} }

// words are the values of a kind of word.
func words[W ~string](values []W) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = string(v)
	}
	return list
}

// printCompletions prints what may follow words, which stand behind the name of the program.
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

// completions returns the words that may stand in place of typed, behind words, and whether
// names of files may too. What a terminal would not show as it is, is left out.
func completions(app *cli.App, words []string, typed string) (kind string, found []string) {
	c := completer{commands: app.Commands, flags: app.Flags, given: make(map[string]string)}
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
	case strings.HasPrefix(typed, "-") && typed != "-" || typed == "-" && next.from != remoteMarked:
		next = listed(c.options()...)
	}
	value := strings.TrimPrefix(typed, prefix)
	if next.from == remoteMarked && !strings.HasPrefix(value, ":") {
		next.from = localFiles
	}
	switch next.from {
	case localFiles:
		return orFiles, nil
	case remoteFiles, remoteMarked:
		next.list = remote.CompletePaths(c.given, value, false)
	case remoteDirs:
		next.list = remote.CompletePaths(c.given, value, true)
	case handles:
		next.list = remote.CompleteHandles(c.given)
	}
	for _, word := range next.list {
		if strings.HasPrefix(word, value) && terminal.Text(word) == word {
			found = append(found, prefix+word)
		}
	}
	return onlyWords, found
}

// complete returns the words that may follow words, for a script that filters them. A last
// word - asks for options. None means that files may follow, or anything.
func complete(app *cli.App, words []string) []string {
	c := completer{commands: app.Commands, flags: app.Flags, given: make(map[string]string)}
	if last := len(words) - 1; last >= 0 && words[last] == "-" && !slices.Contains(words, "--") {
		if c.follow(words[:last]); c.pending == "" {
			return c.options()
		}
	}
	return c.follow(words).list
}

// follow goes along words, and returns what may come next.
func (c *completer) follow(words []string) choice {
	for i := 0; i < len(words); i++ {
		word := words[i]
		option, value, hasValue := strings.Cut(word, "=")
		switch {
		case word == "--":
			return choice{from: localFiles}
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
func (c *completer) next() choice {
	if c.operands == 0 && len(c.commands) > 0 {
		var names []string
		for _, sub := range c.commands {
			if !sub.Hidden {
				names = append(names, sub.Name)
			}
		}
		return listed(names...)
	}
	switch strings.Join(c.path, " ") {
	case "completion":
		if c.operands == 0 {
			return listed("bash", "zsh", "fish")
		}
	case "environments check", "environments remove":
		return listed(environmentIDs()...)
	case "remote ls", "remote cat", "remote rm", "remote mkdir", "remote mv", "remote ln", "remote edit":
		return choice{from: remoteFiles}
	case "remote watch":
		if c.operands == 0 {
			return choice{from: remoteFiles}
		}
	case "remote cp", "remote sync":
		return choice{from: remoteMarked}
	case "remote logs", "remote attach", "remote wait", "remote kill", "remote forget":
		return choice{from: handles}
	case "sandbox":
		return choice{from: localFiles}
	}
	if len(c.path) > 0 && c.path[0] == "audit" {
		return choice{from: localFiles}
	}
	return listed()
}

// values are those that an option may have.
func (c *completer) values(option string) choice {
	onServer := len(c.path) > 0 && c.path[0] == "remote"
	switch option {
	case "env":
		return listed(environmentIDs()...)
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
		return listed("executor", "harness", "both")
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
			return choice{from: remoteDirs}
		}
	}
	if c.namesFile(option) {
		return choice{from: localFiles}
	}
	return listed()
}

// namesFile reports whether the value of an option is the name of a file or a directory, or
// has one in it.
func (c *completer) namesFile(option string) bool {
	for _, flag := range c.flags {
		if f, ok := flag.(cli.DocGenerationFlag); ok && slices.Contains(flag.Names(), option) {
			return placeholder().MatchString(f.GetUsage())
		}
	}
	return false
}

// placeholder is what stands for a file in the usage of an option.
var placeholder = pattern.New("`[^`]*(FILE|DIR|PATH|PROGRAM)[^`]*`")

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
