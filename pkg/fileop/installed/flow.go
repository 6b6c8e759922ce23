package installed

import (
	"strconv"
	"strings"
)

// closing returns the position of the quote that ends a quoted text, or -1.
func closing(text string) int {
	for i := 1; i < len(text); i++ {
		switch {
		case text[0] == '"' && text[i] == '\\':
			i++
		case text[i] != text[0]:
		case text[0] == '\'' && i+1 < len(text) && text[i+1] == '\'':
			i++
		default:
			return i
		}
	}
	return -1
}

// unquote returns the string of a quoted text.
func unquote(text string) (string, error) {
	inner := text[1 : len(text)-1]
	if text[0] == '\'' {
		return strings.ReplaceAll(inner, "''", "'"), nil
	}
	var b strings.Builder
	for rest := inner; rest != ""; {
		if plain, after, found := strings.Cut(rest, `\`); !found {
			b.WriteString(rest)
			return b.String(), nil
		} else if after == "" {
			return "", errYAML
		} else {
			b.WriteString(plain)
			rest = after
		}
		switch rest[0] {
		case '/', ' ':
			b.WriteByte(rest[0])
			rest = rest[1:]
			continue
		case 'e':
			b.WriteByte(0x1b)
			rest = rest[1:]
			continue
		}
		c, _, after, err := strconv.UnquoteChar(`\`+rest, '"')
		if err != nil {
			return "", errYAML
		}
		b.WriteRune(c)
		rest = after
	}
	return b.String(), nil
}

// flow reads a value in brackets, which may go on in later lines.
func (y *yaml) flow(text string, indent int) (*node, error) {
	f := &flow{text: uncomment(text)}
	for began := y.at; !balanced(f.text); y.at++ {
		if y.ended() || y.at-began > maxContinued || y.lines[y.at].text != "" && y.lines[y.at].indent <= indent {
			return nil, errYAML
		}
		f.text += " " + uncomment(y.lines[y.at].text)
	}
	n, err := f.value()
	if f.blank(); err == nil && f.text != "" {
		err = errYAML
	}
	return n, err
}

// balanced reports whether all brackets of a text are closed.
func balanced(text string) bool {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"', '\'':
			if i > 0 && strings.IndexByte(" [{,:", text[i-1]) < 0 {
				continue // an apostrophe within a word
			}
			end := closing(text[i:])
			if end < 0 {
				return false
			}
			i += end
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
	}
	return depth <= 0
}

// flow is what is left of a value in brackets.
type flow struct {
	text  string
	depth int
}

func (f *flow) blank() { f.text = strings.TrimLeft(f.text, " ") }

// take removes a character, if the text begins with it.
func (f *flow) take(c byte) bool {
	f.blank()
	if f.text == "" || f.text[0] != c {
		return false
	}
	f.text = f.text[1:]
	return true
}

func (f *flow) value() (*node, error) {
	if f.depth++; f.depth > maxYAMLDepth {
		return nil, errYAML
	}
	defer func() { f.depth-- }()
	switch {
	case f.take('['):
		n := &node{kind: sequence}
		return n, f.elements(']', func() error {
			item, err := f.value()
			n.items = append(n.items, item)
			return err
		})
	case f.take('{'):
		n := &node{kind: mapping}
		return n, f.elements('}', func() error {
			key, err := f.scalar(true)
			if err != nil || !f.take(':') {
				return errYAML
			}
			value, err := f.value()
			n.pairs = append(n.pairs, pair{key.text, value})
			return err
		})
	}
	return f.scalar(false)
}

// elements reads elements up to the closing bracket.
func (f *flow) elements(end byte, element func() error) error {
	for !f.take(end) {
		if err := element(); err != nil {
			return err
		}
		if f.blank(); !f.take(',') && (f.text == "" || f.text[0] != end) {
			return errYAML
		}
	}
	return nil
}

// scalar reads a scalar, which a key ends before its colon.
func (f *flow) scalar(key bool) (*node, error) {
	f.blank()
	if f.text == "" || strings.IndexByte("&*!%@`|>", f.text[0]) >= 0 {
		return nil, errYAML
	}
	if f.text[0] == '"' || f.text[0] == '\'' {
		end := closing(f.text)
		if end < 0 {
			return nil, errYAML
		}
		s, err := unquote(f.text[:end+1])
		f.text = f.text[end+1:]
		return &node{kind: quoted, text: s}, err
	}
	end := strings.IndexAny(f.text, ",[]{}")
	if end < 0 {
		return nil, errYAML
	}
	if colon := strings.IndexByte(f.text[:end], ':'); key {
		if colon < 0 {
			return nil, errYAML
		}
		end = colon
	}
	n, err := plainNode(f.text[:end])
	f.text = f.text[end:]
	return n, err
}
