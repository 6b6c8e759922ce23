package signin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"codex.internal/pkg/wire/secret"
)

// document is a JSON object that preserves unknown members and the order of all
// members.
type document struct {
	secret.Unprinted
	names  []string
	values map[string]json.RawMessage
}

// parseDocument parses one object. If a member is duplicated, the last one is used.
func parseDocument(text []byte) (*document, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	if t != json.Delim('{') {
		return nil, fmt.Errorf("expected an object, found %v", t)
	}
	doc := &document{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		doc.setRaw(name.(string), value)
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more text after the object")
	}
	return doc, nil
}

// get returns a member's value, or nil if it is missing or null.
func (d *document) get(name string) json.RawMessage {
	v := d.values[name]
	if string(v) == "null" {
		return nil
	}
	return v
}

func (d *document) setRaw(name string, value json.RawMessage) {
	if _, there := d.values[name]; !there {
		d.names = append(d.names, name)
	}
	if d.values == nil {
		d.values = map[string]json.RawMessage{}
	}
	d.values[name] = value
}

// setString sets a member to a string; "" is written as null.
func (d *document) setString(name, text string, null bool) {
	if null {
		d.setRaw(name, json.RawMessage("null"))
		return
	}
	d.setRaw(name, encode(text))
}

// MarshalJSON returns the object on one line.
func (d *document) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, name := range d.names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, encode(name)...), ':'), d.values[name]...)
	}
	return append(b, '}'), nil
}

// indented returns the object with a line for each member.
func (d *document) indented() ([]byte, error) {
	line, err := d.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, line, "", "  "); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// encode returns the JSON of a value that can be encoded. It does not escape <
// and &.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("signin: %T has no JSON: %v", v, err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func (d *document) clone() *document {
	return &document{names: slices.Clone(d.names), values: maps.Clone(d.values)}
}
