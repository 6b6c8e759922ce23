package remote

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// ignored matches paths with the .gitignore files of a tree (gitignore(5)).
type ignored struct {
	rules map[string][]rule // keys are the directories of the files; "" is the top
}

// rule is one line of a .gitignore file.
type rule struct {
	match      *regexp.Regexp // matches paths below the directory of the file
	negated    bool
	onlyFolder bool
}

// ignoreFile is the name of git's ignore files.
const ignoreFile = ".gitignore"

// errIgnoreFile is the error for an ignore file that is too large. The file may have grown since it
// was listed.
var errIgnoreFile = fmt.Errorf("it has more than %d bytes", maxIgnoreFile)

// gitFolder is the directory that is never part of a work tree.
const gitFolder = ".git"

// add adds the rules of the .gitignore file of a directory.
func (g *ignored) add(folder, text string) {
	if g.rules == nil {
		g.rules = make(map[string][]rule)
	}
	for line := range strings.Lines(text) {
		if r, ok := parseRule(strings.TrimRight(line, "\r\n")); ok {
			g.rules[folder] = append(g.rules[folder], r)
		}
	}
}

// parseRule parses a line. It returns false for blank lines, comments and invalid patterns, which
// git ignores, too.
func parseRule(line string) (rule, bool) {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	var r rule
	if strings.HasPrefix(line, "#") {
		return r, false
	}
	if line, r.negated = strings.CutPrefix(line, "!"); line == "" {
		return r, false
	}
	line, r.onlyFolder = strings.CutSuffix(line, "/")
	anchored := strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return r, false
	}
	expression := globExpression(line)
	if !anchored {
		expression = "(?:.*/)?" + expression
	}
	var err error
	r.match, err = regexp.Compile("(?s)^" + expression + "$")
	return r, err == nil
}

// globExpression translates a pattern with ** into a regular expression.
func globExpression(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		rest := pattern[i:]
		switch {
		case strings.HasPrefix(rest, "**/") && (i == 0 || pattern[i-1] == '/'):
			b.WriteString("(?:.*/)?")
			i += 2
		case rest == "**" && i > 0 && pattern[i-1] == '/':
			b.WriteString(".+")
			i++
		case rest[0] == '*':
			b.WriteString("[^/]*")
		case rest[0] == '?':
			b.WriteString("[^/]")
		case rest[0] == '[':
			class, n := classExpression(rest)
			b.WriteString(class)
			i += n - 1
		case rest[0] == '\\' && len(rest) > 1:
			i++
			b.WriteString(regexp.QuoteMeta(rest[1:2]))
		default:
			b.WriteString(regexp.QuoteMeta(rest[:1]))
		}
	}
	return b.String()
}

// classExpression translates a bracket expression, and returns its length in the pattern.
// Without a closing bracket it matches nothing.
func classExpression(pattern string) (expression string, length int) {
	var b strings.Builder
	b.WriteString("[")
	i := 1
	if i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^') {
		b.WriteString("^/")
		i++
	}
	for first := true; i < len(pattern); first = false {
		switch c := pattern[i]; {
		case c == ']' && !first:
			b.WriteString("]")
			return b.String(), i + 1
		case c == '[' && strings.HasPrefix(pattern[i:], "[:"):
			if end := strings.Index(pattern[i:], ":]"); end > 0 {
				b.WriteString(pattern[i : i+end+2])
				i += end + 2
				continue
			}
			b.WriteString(`\[`)
		case c == '-':
			b.WriteString("-")
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		case c == ']' || c == '[' || c == '^' || c == '&' || c == '~':
			b.WriteString(`\` + string(c))
		default:
			b.WriteByte(c)
		}
		i++
	}
	return "[^\\s\\S]", len(pattern)
}

// leavesOut reports whether a path itself is ignored. The caller must check the directories
// above it.
func (g *ignored) leavesOut(below string, isFolder bool) bool {
	if strings.EqualFold(path.Base(below), gitFolder) { // many file systems ignore case
		return true
	}
	// The file in the nearest directory takes precedence. In a file, the last matching line takes precedence.
	for folder := path.Dir(below); ; folder = path.Dir(folder) {
		key, rest := folder, strings.TrimPrefix(below, folder+"/")
		if folder == "." {
			key, rest = "", below
		}
		rules := g.rules[key]
		for i := len(rules) - 1; i >= 0; i-- {
			if r := rules[i]; (isFolder || !r.onlyFolder) && r.match.MatchString(rest) {
				return !r.negated
			}
		}
		if folder == "." {
			return false
		}
	}
}
