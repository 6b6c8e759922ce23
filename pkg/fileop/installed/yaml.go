package installed

import (
	"errors"
	"strings"
)

// node is a YAML value: one of text, pairs and items, by its kind.
type node struct {
	kind  nodeKind
	text  string
	pairs []pair
	items []*node
}

type nodeKind uint8

const (
	null nodeKind = iota
	plain
	quoted // a string, whatever it looks like
	mapping
	sequence
)

type pair struct {
	key   string
	value *node
}

// get returns a member of a mapping, or nil. The last one of a name counts.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for i := len(n.pairs) - 1; i >= 0; i-- {
		if n.pairs[i].key == key {
			return n.pairs[i].value
		}
	}
	return nil
}

// scalar returns the text of a scalar; ok is false for null and what is none.
func (n *node) scalar() (text string, ok bool) {
	if n == nil || n.kind != plain && n.kind != quoted {
		return "", false
	}
	return n.text, true
}

// errYAML is the error of a text outside of the part of YAML that is read here.
var errYAML = errors.New("not the YAML that heads of skills are written in")

// yamlLine is a line of the text, without its indentation and end.
type yamlLine struct {
	indent int
	text   string
}

// yaml reads the part of YAML that people write skills in: mappings and
// sequences as blocks and in brackets, plain and quoted scalars, and block
// scalars. Anchors, aliases and tags, by which a short text becomes a large
// value, are errors. A library for all of YAML would be the largest dependency
// of the server, for a few lines at the head of a file.
type yaml struct {
	lines []yamlLine
	at    int
	depth int
}

// parseYAML reads a document.
func parseYAML(text string) (*node, error) {
	if len(text) > maxYAML {
		return nil, errYAML
	}
	y := &yaml{}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(line, " \t\r")
		rest := strings.TrimLeft(line, " ")
		if strings.HasPrefix(rest, "\t") {
			return nil, errYAML
		}
		y.lines = append(y.lines, yamlLine{len(line) - len(rest), rest})
	}
	if y.skip(); !y.ended() && y.lines[y.at].text == "---" {
		y.at++
	}
	n, err := y.block(0)
	if y.skip(); err == nil && !y.ended() {
		err = errYAML
	}
	return n, err
}

func (y *yaml) ended() bool { return y.at >= len(y.lines) }

// skip skips empty lines and comments.
func (y *yaml) skip() {
	for !y.ended() && (y.lines[y.at].text == "" || y.lines[y.at].text[0] == '#') {
		y.at++
	}
}

// block reads a value whose lines are indented by at least least.
func (y *yaml) block(least int) (*node, error) {
	if y.depth++; y.depth > maxYAMLDepth {
		return nil, errYAML
	}
	defer func() { y.depth-- }()
	if y.skip(); y.ended() || y.lines[y.at].indent < least {
		return &node{}, nil
	}
	line := y.lines[y.at]
	if isItem(line.text) {
		return y.sequence(line.indent)
	}
	if _, _, found := splitKey(line.text); found {
		return y.mapping(line.indent)
	}
	y.at++
	return y.value(line.text, line.indent-1)
}

func isItem(text string) bool { return text == "-" || strings.HasPrefix(text, "- ") }

func (y *yaml) sequence(indent int) (*node, error) {
	n := &node{kind: sequence}
	for y.skip(); !y.ended() && y.lines[y.at].indent == indent && isItem(y.lines[y.at].text); y.skip() {
		// What follows the dash is a block of its own, which begins in this line.
		rest := strings.TrimLeft(y.lines[y.at].text[1:], " ")
		y.lines[y.at] = yamlLine{indent + len(y.lines[y.at].text) - len(rest), rest}
		item, err := y.block(indent + 1)
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, item)
	}
	return n, y.outside(indent)
}

func (y *yaml) mapping(indent int) (*node, error) {
	n := &node{kind: mapping}
	for y.skip(); !y.ended() && y.lines[y.at].indent == indent; y.skip() {
		key, rest, found := splitKey(y.lines[y.at].text)
		if !found {
			return nil, errYAML
		}
		y.at++
		value, err := y.member(rest, indent)
		if err != nil {
			return nil, err
		}
		n.pairs = append(n.pairs, pair{key, value})
	}
	return n, y.outside(indent)
}

// member reads the value of a key; rest is what follows in its line.
func (y *yaml) member(rest string, indent int) (*node, error) {
	if uncomment(rest) != "" {
		return y.value(rest, indent)
	}
	y.skip()
	if !y.ended() && y.lines[y.at].indent == indent && isItem(y.lines[y.at].text) {
		return y.sequence(indent) // which need not be indented below its key
	}
	return y.block(indent + 1)
}

// outside returns an error if the next line is indented more than the block that
// has ended.
func (y *yaml) outside(indent int) error {
	if !y.ended() && y.lines[y.at].indent > indent {
		return errYAML
	}
	return nil
}

// splitKey splits a line after its key.
func splitKey(text string) (key, rest string, found bool) {
	if text == "" || strings.ContainsRune("[]{},|>&*!%@`#", rune(text[0])) {
		return "", "", false
	}
	if text[0] == '"' || text[0] == '\'' {
		end := closing(text)
		if end < 0 {
			return "", "", false
		}
		key, after := text[:end+1], text[end+1:]
		rest, found := strings.CutPrefix(strings.TrimLeft(after, " "), ":")
		if !found || rest != "" && rest[0] != ' ' {
			return "", "", false
		}
		name, err := unquote(key)
		return name, strings.TrimLeft(rest, " "), err == nil
	}
	text = uncomment(text)
	if name, ends := strings.CutSuffix(text, ":"); ends && !strings.Contains(name, ": ") {
		return strings.TrimRight(name, " "), "", true
	}
	if name, after, inside := strings.Cut(text, ": "); inside {
		return strings.TrimRight(name, " "), strings.TrimLeft(after, " "), true
	}
	return "", "", false
}

// uncomment removes a comment at the end of a line. A `#` in quotes is one of
// the text.
func uncomment(text string) string {
	var quote byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote == '"' && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case (c == '"' || c == '\'') && (i == 0 || strings.IndexByte(" [{,:", text[i-1]) >= 0):
			quote = c
		case c == '#' && (i == 0 || text[i-1] == ' '):
			return strings.TrimRight(text[:i], " ")
		}
	}
	return text
}

// value reads a value that begins with text, in a line that was taken. What goes
// on in later lines is indented more than indent.
func (y *yaml) value(text string, indent int) (*node, error) {
	switch text[0] {
	case '|', '>':
		return y.blockScalar(text, indent)
	case '"', '\'':
		for began := y.at; closing(text) < 0; y.at++ {
			if y.ended() || y.at-began > maxContinued {
				return nil, errYAML
			}
			text += " " + y.lines[y.at].text
		}
		if end := closing(text); uncomment(strings.TrimLeft(text[end+1:], " ")) == "" {
			s, err := unquote(text[:end+1])
			return &node{kind: quoted, text: s}, err
		}
		return nil, errYAML
	case '[', '{':
		return y.flow(text, indent)
	case '&', '*', '!', '%', '@', '`', ',', ']', '}':
		return nil, errYAML
	}
	text = uncomment(text)
	for began := y.at; !y.ended() && y.lines[y.at].text != "" && y.lines[y.at].indent > indent; y.at++ {
		more := uncomment(y.lines[y.at].text)
		if _, _, found := splitKey(more); found || y.at-began > maxContinued {
			return nil, errYAML
		}
		text += " " + more
	}
	return plainNode(text)
}

// plainNode is a scalar without quotes.
func plainNode(text string) (*node, error) {
	switch text = strings.TrimSpace(text); {
	case text == "" || text == "~" || text == "null":
		return &node{}, nil
	case strings.Contains(text, ": "):
		return nil, errYAML
	}
	return &node{kind: plain, text: text}, nil
}

// blockScalar reads the lines after `|` or `>`. Indentation beyond that of the
// first line is kept.
func (y *yaml) blockScalar(header string, indent int) (*node, error) {
	if strings.Trim(uncomment(header[1:]), "+-") != "" {
		return nil, errYAML
	}
	var b strings.Builder
	inner, glue := -1, ""
	for ; !y.ended() && (y.lines[y.at].text == "" || y.lines[y.at].indent > indent); y.at++ {
		line := y.lines[y.at]
		if line.text == "" {
			glue = "\n"
			continue
		}
		if inner < 0 {
			inner = line.indent
		}
		b.WriteString(glue + strings.Repeat(" ", max(line.indent-inner, 0)) + line.text)
		if glue = "\n"; header[0] == '>' {
			glue = " "
		}
	}
	return &node{kind: quoted, text: b.String()}, nil
}
