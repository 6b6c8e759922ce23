package permissions

import (
	"errors"
	"path"
	"strings"
	"unicode/utf8"
)

var (
	errBadGlob  = errors.New("invalid range in a character class")
	errManyAlts = errors.New("too many alternatives in braces")
	errGlobCwd  = errors.New("relative pattern without a working directory")
	errGlobHome = errors.New("only ~ and ~/ at its very beginning stand for a home directory; write ./~ for a name")
	errGlobName = errors.New("variables are not expanded")
	errGlobURI  = errors.New("it is a URI, and not a path")
)

// pattern is a denied glob, absolute and clean.
type pattern struct {
	text     string
	programs []program // one for each alternative of its braces
	err      error     // the reason why it cannot be matched
}

// addGlob adds a denied pattern. If the pattern is relative to the project roots, it adds one for
// each root.
func (p *Policy) addGlob(text string, scope Scope) {
	if rest, ok := strings.CutPrefix(text, projectRootsGlob); ok {
		for _, root := range scope.roots() {
			p.patterns = append(p.patterns, compileGlob(joinGlob(root, rest)))
		}
		if len(scope.roots()) == 0 {
			p.patterns = append(p.patterns, pattern{text: text, err: errGlobCwd})
		}
		return
	}
	// Each alternative may be absolute or not.
	alternatives, err := expandBraces(text)
	if err != nil {
		p.patterns = append(p.patterns, pattern{text: text, err: err})
		return
	}
	for _, alternative := range alternatives {
		p.patterns = append(p.patterns, resolveGlob(alternative, scope.Cwd))
	}
}

// resolveGlob compiles a pattern without braces that is relative to a folder.
// Text that other programs expand, such as $HOME, is an error: here it would be a
// literal name, and the pattern would silently deny nothing.
func resolveGlob(text, cwd string) pattern {
	first, _, deeper := strings.Cut(text, "/")
	variable := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(first, "$"), "{"), "}")
	switch {
	case path.IsAbs(text):
		return compileGlob(path.Clean(text))
	case strings.HasPrefix(first, "~") && (deeper || first == "~") && !strings.ContainsAny(first, `*?[`):
		return pattern{text: text, err: errGlobHome}
	case deeper && strings.HasPrefix(first, "$") && isName(variable):
		return pattern{text: text, err: errGlobName}
	case strings.Contains(text, ":///") || strings.HasPrefix(text, "file:/"):
		return pattern{text: text, err: errGlobURI}
	case cwd == "":
		return pattern{text: text, err: errGlobCwd}
	}
	return compileGlob(joinGlob(cwd, text))
}

// isName reports whether s can be the name of a variable.
func isName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == ""
}

// joinGlob returns the clean pattern that matches below a folder, whose own
// name is literal.
func joinGlob(root, relative string) string {
	return path.Join(escapeGlob(root), relative)
}

// escapeGlob returns a pattern that matches one path.
func escapeGlob(p string) string {
	if !strings.ContainsAny(p, `*?[{\`) {
		return p
	}
	var b strings.Builder
	for _, c := range []byte(p) {
		switch c {
		case '*', '?', '[', '{':
			b.WriteByte('[')
			b.WriteByte(c)
			b.WriteByte(']')
		case '\\':
			b.WriteString(`\\`)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// compileGlob compiles an absolute pattern. `*` and `?` do not match `/`. `**` does; as a whole
// component it also matches no component. `[ab-z]` and `[!a]` are classes, `{a,b}` are
// alternatives, and `\` makes the next character literal. A bracket or brace that is not closed is
// literal.
func compileGlob(text string) pattern {
	p := pattern{text: text}
	alternatives, err := expandBraces(text)
	for _, alternative := range alternatives {
		var prog program
		if err == nil {
			prog, err = compileOne(alternative)
		}
		p.programs = append(p.programs, prog)
	}
	p.err = err
	return p
}

// op is the kind of one step of a program.
type op uint8

const (
	opLiteral op = iota // one character
	opAny               // one character but /
	opClass             // one character of a class, never /
	opStar              // any number of characters but /
	opCross             // any number of characters
	opEnter             // nothing: a component begins here; the next, an opLoop, may be left out
	opLoop              // any number of whole components, their / included
)

type token struct {
	op    op
	char  rune
	class class
}

type class struct {
	negated bool
	ranges  []rune // pairs of the first and the last
}

// program is a compiled pattern.
type program []token

// nextChar returns the first character of s. A byte that is not UTF-8 is returned as a character
// beyond Unicode.
func nextChar(s string) (rune, int) {
	r, n := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && n == 1 {
		return utf8.MaxRune + 1 + rune(s[0]), 1
	}
	return r, n
}

func compileOne(text string) (program, error) {
	prog := make(program, 0, len(text))
	start := true // of a component
	for i := 0; i < len(text); {
		rest := text[i:]
		c, n := nextChar(rest)
		atStart := start
		start = c == '/'
		switch {
		case strings.HasPrefix(rest, "**/") && atStart:
			prog = append(prog, token{op: opEnter}, token{op: opLoop})
			n, start = len("**/"), true
		case strings.HasPrefix(rest, "**"):
			prog = append(prog, token{op: opCross})
			n = len("**")
		case c == '*':
			prog = append(prog, token{op: opStar})
		case c == '?':
			prog = append(prog, token{op: opAny})
		case c == '[':
			set, size, err := compileClass(rest)
			if err != nil {
				return nil, err
			}
			if n = max(size, 1); size == 0 {
				prog = append(prog, token{char: c})
			} else if !set.negated && len(set.ranges) == 2 && set.ranges[0] == set.ranges[1] {
				prog = append(prog, token{char: set.ranges[0]})
			} else {
				prog = append(prog, token{op: opClass, class: set})
			}
		case c == '\\' && len(rest) > 1:
			c, n = nextChar(rest[1:])
			prog = append(prog, token{char: c})
			start = c == '/'
			n++
		default:
			prog = append(prog, token{char: c})
		}
		i += n
	}
	return prog, nil
}

// compileClass compiles a class, and returns its size. The size is 0 if the class is not closed.
func compileClass(s string) (class, int, error) {
	var set class
	i := 1
	if i < len(s) && (s[i] == '!' || s[i] == '^') {
		set.negated = true
		i++
	}
	for first := true; i < len(s); first = false {
		if s[i] == ']' && !first {
			return set, i + 1, nil
		}
		low, n := nextChar(s[i:])
		i += n
		high := low
		if i+1 < len(s) && s[i] == '-' && s[i+1] != ']' {
			high, n = nextChar(s[i+1:])
			i += 1 + n
		}
		set.ranges = append(set.ranges, low, high)
		if low > high && strings.IndexByte(s[i:], ']') >= 0 {
			return set, 0, errBadGlob
		}
	}
	return class{}, 0, nil
}

func (set class) has(c rune) bool {
	for i := 0; i < len(set.ranges); i += 2 {
		if set.ranges[i] <= c && c <= set.ranges[i+1] {
			return !set.negated
		}
	}
	return set.negated
}

// expandBraces returns the alternatives that the braces of a pattern stand
// for.
func expandBraces(text string) ([]string, error) {
	done, todo := []string(nil), []string{text}
	for len(todo) > 0 {
		if len(done)+len(todo) > maxAlternatives {
			return nil, errManyAlts
		}
		s := todo[0]
		todo = todo[1:]
		open, end, commas := findBraces(s)
		if end == 0 {
			done = append(done, s)
			continue
		}
		from := open + 1
		for _, to := range append(commas, end) {
			todo = append(todo, s[:open]+s[from:to]+s[end+1:])
			from = to + 1
		}
	}
	return done, nil
}

// findBraces finds the first brace that is closed, the brace that closes it, and the commas between
// them. end is 0 if there is none.
func findBraces(s string) (open, end int, commas []int) {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '[':
			if _, n, _ := compileClass(s[i:]); n > 0 {
				i += n - 1
			}
		case '{':
			if depth++; depth == 1 {
				open, commas = i, nil
			}
		case ',':
			if depth == 1 {
				commas = append(commas, i)
			}
		case '}':
			if depth == 1 {
				return open, i, commas
			}
			depth = max(depth-1, 0)
		}
	}
	return 0, 0, nil
}
