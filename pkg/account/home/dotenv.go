package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"codex.internal/pkg/host/safeopen"
)

// reservedPrefix is the beginning of the names, in any case, that .env cannot set. Variables that
// control codex itself must come from the environment in which it is started.
const reservedPrefix = "CODEX_"

// LoadDotenv sets the variables of home's .env, even if they are already set, except names that
// begin with CODEX_. It skips malformed lines. A missing file is not an error. It must be called
// before other goroutines read the environment.
func LoadDotenv(home string) error {
	path := filepath.Join(home, ".env")
	text, err := safeopen.ReadFile(path, maxFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, cause(err))
	}
	for _, v := range parseDotenv(string(text), os.LookupEnv) {
		if len(v.name) >= len(reservedPrefix) && strings.EqualFold(v.name[:len(reservedPrefix)], reservedPrefix) {
			continue
		}
		if err := os.Setenv(v.name, v.value); err != nil {
			continue // a line with a NUL is malformed, too
		}
	}
	return nil
}

type variable struct{ name, value string }

// parseDotenv returns the variables of a file in the order of the file. A value in quotes may
// contain line breaks. A value may refer to variables: lookup is searched first, and then the
// earlier variables of the file.
func parseDotenv(text string, lookup func(string) (string, bool)) []variable {
	p := &dotenvParser{rest: strings.TrimPrefix(text, "\ufeff"), lookup: lookup, earlier: make(map[string]string)}
	var all []variable
	for p.rest != "" {
		v, ok := p.line()
		if ok {
			all = append(all, v)
			p.earlier[v.name] = v.value
		}
	}
	return all
}

// dotenvParser reads one assignment after the other. An assignment with quotes may have several
// lines.
type dotenvParser struct {
	rest    string
	lookup  func(string) (string, bool)
	earlier map[string]string
	// expanded counts the bytes to which references have expanded. Without a limit they could
	// double with every line.
	expanded int
}

// line reads an assignment. It returns false if there is none or it is malformed.
func (p *dotenvParser) line() (variable, bool) {
	p.blanks()
	name := p.name()
	if name == "export" && !strings.HasPrefix(strings.TrimLeft(p.rest, " \t"), "=") {
		p.blanks()
		name = p.name()
	}
	p.blanks()
	if name == "" || !strings.HasPrefix(p.rest, "=") {
		p.skipLine()
		return variable{}, false
	}
	p.rest = p.rest[1:]
	p.blanks()
	value, ok := p.value()
	p.skipLine()
	return variable{name, value}, ok
}

func (p *dotenvParser) blanks() { p.rest = strings.TrimLeft(p.rest, " \t") }

// skipLine skips the rest of a line.
func (p *dotenvParser) skipLine() { _, p.rest, _ = strings.Cut(p.rest, "\n") }

// name reads the name of a variable, which may have dots. It returns "" if there is no
// name.
func (p *dotenvParser) name() string {
	n := 0
	for n < len(p.rest) && (isWord(p.rest[n]) || n > 0 && p.rest[n] == '.') {
		n++
	}
	if n > 0 && p.rest[0] >= '0' && p.rest[0] <= '9' {
		return ""
	}
	name := p.rest[:n]
	p.rest = p.rest[n:]
	return name
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// value reads a value: a sequence of quoted and bare parts, which may be followed only by a
// comment. It returns false if the value is malformed.
func (p *dotenvParser) value() (string, bool) {
	var b strings.Builder
	if strings.HasPrefix(p.rest, "#") {
		return "", true
	}
	for p.rest != "" {
		c := p.rest[0]
		switch c {
		case '\n', '\r':
			return b.String(), strings.HasPrefix(strings.TrimPrefix(p.rest, "\r"), "\n") || p.rest == "\r"
		case ' ', '\t':
			p.blanks()
			end := p.rest == "" || strings.ContainsRune("#\r\n", rune(p.rest[0]))
			return b.String(), end
		}
		p.rest = p.rest[1:]
		ok := true
		switch c {
		case '\'':
			ok = p.literal(&b)
		case '"':
			ok = p.quoted(&b)
		case '\\':
			ok = p.escape(&b)
		case '$':
			ok = p.reference(&b)
		default:
			b.WriteByte(c)
		}
		if !ok {
			return "", false
		}
	}
	return b.String(), true
}

// literal reads the text inside of single quotes, where no character is special.
func (p *dotenvParser) literal(b *strings.Builder) bool {
	inside, rest, ok := strings.Cut(p.rest, "'")
	if p.rest = rest; ok {
		b.WriteString(inside)
	}
	return ok
}

// quoted reads the text inside of double quotes.
func (p *dotenvParser) quoted(b *strings.Builder) bool {
	for p.rest != "" {
		c := p.rest[0]
		p.rest = p.rest[1:]
		ok := true
		switch c {
		case '"':
			return true
		case '\\':
			ok = p.escape(b)
		case '$':
			ok = p.reference(b)
		default:
			b.WriteByte(c)
		}
		if !ok {
			return false
		}
	}
	return false
}

// escape reads the rest of an escape, after a backslash.
func (p *dotenvParser) escape(b *strings.Builder) bool {
	if p.rest == "" {
		return false
	}
	c := p.rest[0]
	switch c {
	case 'n':
		b.WriteByte('\n')
	case '\\', '\'', '"', '$', ' ':
		b.WriteByte(c)
	default:
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// reference reads the rest of a reference, after a dollar: a name, which may be in braces. A dollar
// without a name after it stands for itself.
func (p *dotenvParser) reference(b *strings.Builder) bool {
	name, braced := "", strings.HasPrefix(p.rest, "{")
	if braced {
		var ok bool
		if name, p.rest, ok = strings.Cut(p.rest[1:], "}"); !ok {
			return false
		}
	} else {
		n := 0
		for n < len(p.rest) && isWord(p.rest[n]) {
			n++
		}
		name, p.rest = p.rest[:n], p.rest[n:]
	}
	if name == "" && !braced {
		b.WriteByte('$')
		return true
	}
	value, ok := p.lookup(name)
	if !ok {
		value = p.earlier[name]
	}
	p.expanded += len(value)
	b.WriteString(value)
	return p.expanded <= maxFileBytes
}
