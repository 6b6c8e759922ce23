package cmdutil

import (
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
)

// usualName is the name of the program in all texts of the source.
const usualName = "codex"

// program is the name under which this program was started.
var program atomic.Pointer[string]

// plainName matches names that can be typed without quotes. scripts/install permits the same ones.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)

// ownCommand matches the program's name before a command or an option of it, as in texts for users.
var ownCommand = regexp.MustCompile(`(^|[^\w.+/-])` + usualName +
	`( (?:exec-server|remote|environments|rendezvous|audit|sandbox|doctor|login|logout|completion|version|man|help|--?[a-z]|\[|- ))`)

// SetProgram sets the name under which this program was started, from its argument 0. Another program may be called
// codex, and pasted advice would run that one.
func SetProgram(arg0 string) {
	name := strings.TrimSuffix(filepath.Base(arg0), ".exe")
	if arg0 == "/proc/self/exe" || !plainName.MatchString(name) {
		name = usualName
	}
	program.Store(&name)
}

// OwnCommands replaces the program's name in the commands of a text by the one under which it was started.
func OwnCommands(text string) string {
	name := program.Load()
	if name == nil || *name == usualName || !strings.Contains(text, usualName) {
		return text
	}
	return ownCommand.ReplaceAllString(text, "${1}"+*name+"${2}")
}
