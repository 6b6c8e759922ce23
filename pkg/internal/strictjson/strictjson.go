// Package strictjson decodes JSON on which an admission depends: claims of a
// token, requests with credentials, stored keys.
//
// encoding/json takes a member for a field if their names are the same but for
// the case of their letters, and the last of several members wins. A token
// with "aud" for one service and "AUD" for another is then good for both,
// depending on who reads it. Here names are compared exactly, and a field that
// is given twice is an error.
package strictjson

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"codex.internal/pkg/wire/jsonwire"
)

// Unmarshal is json.Unmarshal with exact names. Members for which v has no
// field are ignored, at every level. Types that decode themselves decode what they
// are given.
func Unmarshal(text []byte, v any) error { return unmarshal(decoder{}, text, v) }

// UnmarshalKnown is Unmarshal for a document of which every member must be
// known: one that v has no field for is an error, at every level.
func UnmarshalKnown(text []byte, v any) error { return unmarshal(decoder{known: true}, text, v) }

func unmarshal(d decoder, text []byte, v any) error {
	if !json.Valid(text) {
		return json.Unmarshal(text, v) // for its error
	}
	r := jsonwire.NewReader(text)
	exact, err := d.filter(nil, r, reflect.TypeOf(v))
	if err != nil {
		return err
	}
	if err := r.End(); err != nil {
		return err
	}
	return json.Unmarshal(exact, v)
}

var (
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// decoder says how members are treated that have no field.
type decoder struct {
	known bool // they are errors
}

// filter appends the next value of r without the members for which t has no
// field.
func (d decoder) filter(b []byte, r *jsonwire.Reader, t reflect.Type) ([]byte, error) {
	for t != nil && !decodesItself(t) && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || decodesItself(t) {
		return appendRaw(b, r)
	}
	switch kind := r.Peek(); {
	case kind == jsonwire.Object && t.Kind() == reflect.Struct:
		return d.filterObject(b, r, fields(t, make(map[string]reflect.Type)))
	case kind == jsonwire.Object && t.Kind() == reflect.Map:
		return d.filterMap(b, r, t.Elem())
	case kind == jsonwire.Array && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array):
		b = append(b, '[')
		first := true
		err := r.Array("an array", func() (err error) {
			if !first {
				b = append(b, ',')
			}
			first = false
			b, err = d.filter(b, r, t.Elem())
			return err
		})
		return append(b, ']'), err
	default:
		return appendRaw(b, r)
	}
}

func decodesItself(t reflect.Type) bool {
	for _, i := range []reflect.Type{unmarshaler, textUnmarshaler} {
		if t.Implements(i) || reflect.PointerTo(t).Implements(i) {
			return true
		}
	}
	return false
}

func appendRaw(b []byte, r *jsonwire.Reader) ([]byte, error) {
	raw, err := r.Raw()
	return append(b, raw...), err
}

// filterObject keeps the members that are fields.
func (d decoder) filterObject(b []byte, r *jsonwire.Reader, known map[string]reflect.Type) ([]byte, error) {
	b = append(b, '{')
	seen := make(map[string]bool)
	err := r.Object("an object", func(text []byte) (err error) {
		name := string(text)
		t, ok := known[name]
		switch {
		case !ok && d.known:
			return fmt.Errorf("unknown field `%s`", name)
		case !ok:
			return r.Skip()
		case seen[name]:
			return fmt.Errorf("duplicate field `%s`", name)
		case len(seen) > 0:
			b = append(b, ',')
		}
		seen[name] = true
		b = append(jsonwire.AppendString(b, name), ':')
		b, err = d.filter(b, r, t)
		return err
	})
	return append(b, '}'), err
}

// filterMap keeps all members, each of which may be there once.
func (d decoder) filterMap(b []byte, r *jsonwire.Reader, t reflect.Type) ([]byte, error) {
	b = append(b, '{')
	seen := make(map[string]bool)
	err := r.Object("an object", func(text []byte) (err error) {
		name := string(text)
		switch {
		case seen[name]:
			return fmt.Errorf("duplicate member")
		case len(seen) > 0:
			b = append(b, ',')
		}
		seen[name] = true
		b = append(jsonwire.AppendString(b, name), ':')
		b, err = d.filter(b, r, t)
		return err
	})
	return append(b, '}'), err
}

// fields collects the names under which a struct's fields stand in JSON. Those
// of embedded structs count as its own.
func fields(t reflect.Type, into map[string]reflect.Type) map[string]reflect.Type {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case f.Tag.Get("json") == "-":
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			fields(inner, into)
		case !f.IsExported():
		case name == "":
			into[f.Name] = f.Type
		default:
			into[name] = f.Type
		}
	}
	return into
}
