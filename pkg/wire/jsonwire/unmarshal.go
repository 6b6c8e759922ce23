package jsonwire

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Unmarshal is json.Unmarshal with exact names. It is for JSON that decides whether a client is
// accepted, and whose types have tags of encoding/json: claims of a token, requests with
// credentials, stored keys. Members for which v has no field are ignored, at every level; a
// duplicate member is an error. Types that decode themselves are not examined.
//
// encoding/json differs: it accepts a member for a field if their names differ only
// in case, and the last of several members wins. A token with "aud" for one service
// and "AUD" for another is then good for both, depending on which program reads it.
func Unmarshal(text []byte, v any) error { return unmarshal(filter{}, text, v) }

// UnmarshalKnown is Unmarshal, except that a member for which v has no field is an error, at
// every level.
func UnmarshalKnown(text []byte, v any) error { return unmarshal(filter{known: true}, text, v) }

func unmarshal(f filter, text []byte, v any) error {
	if !json.Valid(text) {
		return json.Unmarshal(text, v) // for its error
	}
	r := NewReader(text)
	exact, err := f.value(nil, r, reflect.TypeOf(v))
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

// filter copies JSON without the members that have no field.
type filter struct {
	known bool // such a member is an error
}

// value appends the next value of r without the members for which t has no
// field.
func (f filter) value(b []byte, r *Reader, t reflect.Type) ([]byte, error) {
	for t != nil && !decodesItself(t) && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || decodesItself(t) {
		return appendRaw(b, r)
	}
	switch kind := r.Peek(); {
	case kind == Object && t.Kind() == reflect.Struct:
		known := fields(t, make(map[string]reflect.Type))
		return f.object(b, r, func(name string) reflect.Type { return known[name] })
	case kind == Object && t.Kind() == reflect.Map:
		return f.object(b, r, func(string) reflect.Type { return t.Elem() })
	case kind == Array && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array):
		b = append(b, '[')
		first := true
		err := r.Array("an array", func() (err error) {
			if !first {
				b = append(b, ',')
			}
			first = false
			b, err = f.value(b, r, t.Elem())
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

func appendRaw(b []byte, r *Reader) ([]byte, error) {
	raw, err := r.Raw()
	return append(b, raw...), err
}

// object retains the members that have a field. It returns an error for a duplicate.
func (f filter) object(b []byte, r *Reader, typeOf func(name string) reflect.Type) ([]byte, error) {
	b = append(b, '{')
	seen := make(map[string]bool)
	err := r.Object("an object", func(text []byte) (err error) {
		name := string(text)
		t := typeOf(name)
		switch {
		case t == nil && f.known:
			return fmt.Errorf("unknown field `%s`", name)
		case t == nil:
			return r.Skip()
		case seen[name]:
			return fmt.Errorf("duplicate field `%s`", name)
		case len(seen) > 0:
			b = append(b, ',')
		}
		seen[name] = true
		b = append(AppendString(b, name), ':')
		b, err = f.value(b, r, t)
		return err
	})
	return append(b, '}'), err
}

// fields collects the JSON names of a struct's fields. The fields of embedded
// structs count as its own.
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
