package home

import (
	"fmt"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Entry is a key of a TOML document with its value and the position of the value.
type Entry struct {
	Key          string
	Value        any // as the TOML library decodes it: string, int64, bool, []any and so on
	Line, Column int // from 1
}

// Entries returns the keys of a document without tables, in the order of the document.
func Entries(text []byte) ([]Entry, *ConfigError) {
	values := make(map[string]any)
	if err := DecodeTOML(text, &values, false); err != nil {
		return nil, err
	}
	var entries []Entry
	var p unstable.Parser
	p.Reset(text)
	for p.NextExpression() {
		e := p.Expression()
		key := e.Key()
		key.Next()
		name := key.Node()
		at := p.Shape(name.Raw).Start
		if e.Kind == unstable.KeyValue && key.IsLast() {
			entries = append(entries, Entry{Key: string(name.Data), Value: values[string(name.Data)], Line: at.Line, Column: at.Column})
			continue
		}
		return nil, &ConfigError{Line: at.Line, Column: at.Column, Message: fmt.Sprintf("`%s` is a table; this file has keys without tables", name.Data)}
	}
	return entries, nil
}
