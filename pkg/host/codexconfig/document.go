package codexconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// document is one parsed file.
type document struct {
	path string
	// root is the document with its order and the spelling of its values.
	root *table
	// values is the same document decoded. This package reads its own settings from it.
	values map[string]any
}

// table is a table whose keys have the order of the file.
type table struct {
	keys   []string
	values map[string]*value
	// inline is set for { … }, which is printed on one line.
	inline bool
}

// value is a value of a table. Exactly one member is set.
type value struct {
	table  *table   // a table
	tables []*table // the tables of [[…]]
	text   string   // any other value, as TOML
}

func newTable() *table { return &table{values: make(map[string]*value)} }

// set adds a value, or replaces the one with the same key.
func (t *table) set(key string, v *value) {
	if t.values[key] == nil {
		t.keys = append(t.keys, key)
	}
	t.values[key] = v
}

// remove removes a value if it exists.
func (t *table) remove(key string) {
	if t.values[key] == nil {
		return
	}
	delete(t.values, key)
	t.keys = slices.DeleteFunc(t.keys, func(k string) bool { return k == key })
}

// enter returns the table below t that a header or a dotted key names, and creates it if it is
// missing. For an array of tables it returns the last table.
func (t *table) enter(path []string) *table {
	for _, key := range path {
		v := t.values[key]
		switch {
		case v != nil && v.table != nil:
			t = v.table
		case v != nil && len(v.tables) > 0:
			t = v.tables[len(v.tables)-1]
		default:
			below := newTable()
			t.set(key, &value{table: below})
			t = below
		}
	}
	return t
}

// errDepth is the error for a document that is nested too deeply.
var errDepth = fmt.Errorf("tables and arrays are nested more than %d levels deep", maxDepth)

// parse parses a file with the given path. The error contains the path and the position, but no
// text of the file, which may contain secrets.
func parse(path string, text []byte) (*document, error) {
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("%s: the file is not UTF-8", path)
	}
	d := &document{path: path, root: newTable()}
	// The builder comes first because it bounds the depth. It accepts malformed
	// documents, for which the library's decoder returns an error.
	if err := d.build(text); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	err := toml.Unmarshal(text, &d.values)
	var at *toml.DecodeError
	switch {
	case err == nil:
		return d, nil
	case errors.As(err, &at):
		line, column := at.Position()
		return nil, fmt.Errorf("%s:%d:%d: %s", path, line, column, strings.TrimPrefix(at.Error(), "toml: "))
	default:
		return nil, fmt.Errorf("%s: %s", path, strings.TrimPrefix(err.Error(), "toml: "))
	}
}

// build fills the tree from a document. It stops at the first syntax error.
func (d *document) build(text []byte) error {
	var p unstable.Parser
	p.Reset(text)
	current, depth := d.root, 0
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			path := keyOf(e)
			if depth = len(path); depth > maxDepth {
				return errDepth
			}
			if current = d.root.enter(path[:depth-1]); e.Kind == unstable.Table {
				current = current.enter(path[depth-1:])
			} else {
				current = current.append(path[depth-1])
			}
		case unstable.KeyValue:
			if err := current.assign(e, depth); err != nil {
				return err
			}
		default:
		}
	}
	return nil
}

// append adds a table to the tables of [[key]].
func (t *table) append(key string) *table {
	added := newTable()
	if v := t.values[key]; v != nil && v.tables != nil {
		v.tables = append(v.tables, added)
	} else {
		t.set(key, &value{tables: []*table{added}})
	}
	return added
}

// assign executes `key = value`. depth is the nesting depth of t.
func (t *table) assign(e *unstable.Node, depth int) error {
	path := keyOf(e)
	if depth += len(path); depth > maxDepth {
		return errDepth
	}
	v, err := convert(e.Value(), depth)
	if err != nil {
		return err
	}
	in := t
	if t.inline {
		for _, key := range path[:len(path)-1] {
			in = in.enter([]string{key})
			in.inline = true
		}
	} else {
		in = t.enter(path[:len(path)-1])
	}
	in.set(path[len(path)-1], v)
	return nil
}

// convert returns the value of a node.
func convert(n *unstable.Node, depth int) (*value, error) {
	switch n.Kind {
	case unstable.InlineTable:
		t := newTable()
		t.inline = true
		for it := n.Children(); it.Next(); {
			if err := t.assign(it.Node(), depth); err != nil {
				return nil, err
			}
		}
		return &value{table: t}, nil
	case unstable.Array:
		b, err := appendArray(nil, n, depth)
		return &value{text: string(b)}, err
	case unstable.String:
		return &value{text: string(appendString(nil, string(n.Data)))}, nil
	default: // numbers, booleans, dates and times
		return &value{text: string(n.Data)}, nil
	}
}

// appendArray appends the text of an array on one line.
func appendArray(b []byte, n *unstable.Node, depth int) ([]byte, error) {
	if depth++; depth > maxDepth {
		return b, errDepth
	}
	b = append(b, '[')
	first := true
	for it := n.Children(); it.Next(); {
		element := it.Node()
		if element.Kind == unstable.Comment {
			continue
		}
		if !first {
			b = append(b, ", "...)
		}
		first = false
		v, err := convert(element, depth)
		if err != nil {
			return b, err
		}
		b = appendValue(b, v)
	}
	return append(b, ']'), nil
}

// keyOf returns the parts of a key or header.
func keyOf(n *unstable.Node) []string {
	var path []string
	for it := n.Key(); it.Next(); {
		path = append(path, string(it.Node().Data))
	}
	return path
}

// text returns the string with the given path of keys.
func (d *document) text(path ...string) (string, bool) {
	if d == nil {
		return "", false
	}
	var v any = d.values
	for _, key := range path {
		t, ok := v.(map[string]any)
		if !ok {
			return "", false
		}
		v = t[key]
	}
	s, ok := v.(string)
	return s, ok
}

// strings returns the array of strings with the given key, or nil.
func (d *document) strings(key string) ([]string, error) {
	if d == nil {
		return nil, nil
	}
	v, ok := d.values[key]
	if !ok {
		return nil, nil
	}
	list, ok := v.([]any)
	texts := make([]string, 0, len(list))
	for _, e := range list {
		s, isText := e.(string)
		ok = ok && isText
		texts = append(texts, s)
	}
	if !ok {
		return nil, &fs.PathError{Op: "read", Path: d.path, Err: fmt.Errorf("%s must be an array of strings", key)}
	}
	return texts, nil
}
