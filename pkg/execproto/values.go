package execproto

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"codex.internal/pkg/wire/b64"
	"codex.internal/pkg/wire/jsonwire"
)

// The functions below are the lines of fields: each writes or reads one member.

// text is a string.
func text[S ~string](c *codec, name string, rule rule, to *S) {
	if !c.visit(name, rule, jsonwire.String, *to == "") {
		return
	}
	if c.mode == writing {
		c.b = jsonwire.AppendString(c.b, *to)
		return
	}
	s, err := c.r.String()
	*to, c.err = S(s), err
}

// choice is a string that a reader accepts only if it is one of words. If it may
// be absent, the first of them is the default.
func choice[S ~string](c *codec, name string, rule rule, to *S, words []S) {
	switch {
	case !c.visit(name, rule, jsonwire.String, *to == ""):
		if c.mode == reading && c.at.ended && rule&need == 0 && *to == "" {
			*to = words[0]
		}
	case c.mode == writing:
		c.b = jsonwire.AppendString(c.b, *to)
	default:
		*to, c.err = readWord(c.r, words)
	}
}

func readWord[S ~string](r *jsonwire.Reader, words []S) (S, error) {
	b, err := r.StringBytes()
	if err != nil {
		return "", err
	}
	expected := make([]string, len(words))
	for i, w := range words {
		if string(b) == string(w) {
			return w, nil
		}
		expected[i] = "`" + string(w) + "`"
	}
	const show = 64
	listed := "one of " + strings.Join(expected, ", ")
	if len(expected) == 2 {
		listed = strings.Join(expected, " or ")
	}
	return "", fmt.Errorf("unknown variant `%s`, expected %s", b[:min(len(b), show)], listed)
}

func boolean(c *codec, name string, rule rule, to *bool) {
	if c.visit(name, rule, jsonwire.Bool, !*to) {
		booleanValue(c, to)
	}
}

func booleanValue(c *codec, to *bool) {
	if c.mode == writing {
		c.b = jsonwire.AppendBool(c.b, *to)
		return
	}
	*to, c.err = c.r.Bool()
}

func uint64s(c *codec, name string, rule rule, to *uint64) {
	if c.visit(name, rule, jsonwire.Number, *to == 0) {
		uint64Value(c, to)
	}
}

func uint64Value(c *codec, to *uint64) {
	if c.mode == writing {
		c.b = jsonwire.AppendUint(c.b, *to)
		return
	}
	*to, c.err = c.r.Uint64()
}

func uint16s(c *codec, name string, rule rule, to *uint16) {
	if !c.visit(name, rule, jsonwire.Number, *to == 0) {
		return
	}
	if c.mode == writing {
		c.b = jsonwire.AppendUint(c.b, uint64(*to))
		return
	}
	n, err := c.r.Uint(math.MaxUint16, "u16")
	*to, c.err = uint16(n), err
}

func uint32s(c *codec, name string, rule rule, to *uint32) {
	if c.visit(name, rule, jsonwire.Number, *to == 0) {
		uint32Value(c, to)
	}
}

func uint32Value(c *codec, to *uint32) {
	if c.mode == writing {
		c.b = jsonwire.AppendUint(c.b, uint64(*to))
		return
	}
	n, err := c.r.Uint(math.MaxUint32, "u32")
	*to, c.err = uint32(n), err
}

func int64s(c *codec, name string, rule rule, to *int64) {
	if c.visit(name, rule, jsonwire.Number, *to == 0) {
		int64Value(c, to)
	}
}

func int64Value(c *codec, to *int64) {
	if c.mode == writing {
		c.b = jsonwire.AppendInt(c.b, *to)
		return
	}
	*to, c.err = c.r.Int64("i64")
}

// integer is an exit code or a status.
func integer(c *codec, name string, rule rule, to *int) {
	if c.visit(name, rule, jsonwire.Number, *to == 0) {
		integerValue(c, to)
	}
}

func integerValue(c *codec, to *int) {
	if c.mode == writing {
		c.b = jsonwire.AppendInt(c.b, int64(*to))
		return
	}
	n, err := c.r.Int64("i32")
	*to, c.err = int(n), err
}

func textValue(c *codec, to *string) {
	if c.mode == writing {
		c.b = jsonwire.AppendString(c.b, *to)
		return
	}
	*to, c.err = c.r.String()
}

// optional is a value of its own if it is there: nil means that it is not. nil
// is written as null unless rule has omit.
func optional[T any](c *codec, name string, rule rule, to **T, value func(*codec, *T)) {
	if !c.visit(name, rule, anyKind, *to == nil) {
		return
	}
	switch {
	case c.mode == reading:
		*to = new(T)
		value(c, *to)
	case *to == nil:
		c.b = append(c.b, "null"...)
	default:
		value(c, *to)
	}
}

// base64s is a base64 text that a reader decodes in place. Nil is written as the
// empty text, or as null if rule has orNull.
func base64s(c *codec, name string, rule rule, to *[]byte) {
	switch {
	case !c.visit(name, rule, jsonwire.String, *to == nil):
	case c.mode == reading:
		b, err := c.r.StringBytes()
		if err == nil {
			b, err = b64.DecodeInPlace(b)
		}
		*to, c.err = b, err
	case *to == nil && rule&orNull != 0:
		c.b = append(c.b, "null"...)
	default:
		c.b = b64.AppendString(c.b, *to)
	}
}

// base64Text is a base64 text that is not decoded. It aliases what is read.
func base64Text(c *codec, name string, rule rule, to *Base64Text) {
	if !c.visit(name, rule, jsonwire.String, len(*to) == 0) {
		return
	}
	if c.mode == writing {
		c.b = jsonwire.AppendString(c.b, *to)
		return
	}
	*to, c.err = c.r.StringBytes()
}

// raw is a value of any kind as its JSON text, of which a reader makes a copy. nil
// is written as null unless rule has omit. A text that is written is checked, and
// gets no line ends: over stdio a message is one line.
func raw[B ~[]byte](c *codec, name string, rule rule, to *B) {
	switch {
	case !c.visit(name, rule, anyKind, len(*to) == 0):
	case c.mode == reading:
		value, err := c.r.Raw()
		*to, c.err = bytes.Clone(value), err
	case len(*to) == 0:
		c.b = append(c.b, "null"...)
	default:
		b, err := jsonwire.AppendRaw(c.b, *to)
		c.b = b
		if err != nil && c.err == nil {
			c.err = fmt.Errorf("%s: %w", name, err)
		}
	}
}

// texts is a list of strings.
func texts(c *codec, name string, rule rule, to *[]string) {
	if !c.visit(name, rule, jsonwire.Array, *to == nil) {
		return
	}
	if c.mode == writing {
		c.b = appendTexts(c.b, *to)
		return
	}
	list := []string{}
	c.err = c.r.Array("a sequence", func() error {
		s, err := c.r.String()
		list = append(list, s)
		return err
	})
	*to = list
}

func appendTexts(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonwire.AppendString(b, s)
	}
	return append(b, ']')
}

// textMap is an object whose values are strings.
func textMap(c *codec, name string, rule rule, to *map[string]string) {
	wordMap(c, name, rule, to, func() (string, error) { return c.r.String() })
}

// wordMap is an object whose values read reads, written in the order of their
// names. Of several members with the same name, a reader takes the last one.
func wordMap[S ~string](c *codec, name string, rule rule, to *map[string]S, read func() (S, error)) {
	if !c.visit(name, rule, jsonwire.Object, *to == nil) {
		return
	}
	if c.mode == writing {
		c.b = append(c.b, '{')
		for i, key := range slices.Sorted(maps.Keys(*to)) {
			if i > 0 {
				c.b = append(c.b, ',')
			}
			c.b = append(jsonwire.AppendString(c.b, key), ':')
			c.b = jsonwire.AppendString(c.b, (*to)[key])
		}
		c.b = append(c.b, '}')
		return
	}
	m := make(map[string]S)
	c.err = c.r.Object("a map", func(name []byte) error {
		key := string(name)
		value, err := read()
		m[key] = value
		return err
	})
	*to = m
}

// nested is an object within an object.
func nested(c *codec, name string, rule rule, to Object) {
	switch {
	case !c.visit(name, rule, jsonwire.Object, false):
	case c.mode == writing:
		c.write(to)
	default:
		c.err = c.object(to, "an object")
	}
}

// write writes an object within another one.
func (c *codec) write(o Object) {
	c.b = append(c.b, '{')
	o.fields(c)
	c.b = append(c.b, '}')
}

// objectValue is the value of an optional object.
func objectValue[T any, P Pointer[T]](c *codec, to *T) {
	if c.mode == writing {
		c.write(P(to))
		return
	}
	c.err = c.object(P(to), "an object")
}

// bareValue is objectValue for an object whose errors do not say where in the
// message it is: clients compare them with those of Codex CLI.
func bareValue[T any, P Pointer[T]](c *codec, to *T) {
	c.bare = true
	objectValue[T, P](c, to)
	c.bare = c.err != nil
}

// objects is a list of objects.
func objects[T any, P Pointer[T]](c *codec, name string, rule rule, to *[]T) {
	elements := c.visit(name, rule, jsonwire.Array, len(*to) == 0)
	switch {
	case !elements:
	case c.mode == writing:
		c.b = append(c.b, '[')
		for i := range *to {
			if i > 0 {
				c.b = append(c.b, ',')
			}
			c.write(P(&(*to)[i]))
		}
		c.b = append(c.b, ']')
	case c.mode == checking:
		element := P(new(T))
		c.err = c.r.Array("an array", func() error { return c.object(element, "a result") })
	default:
		list := []T{}
		c.err = c.r.Array("a sequence", func() error {
			list = append(list, *new(T))
			return c.object(P(&list[len(list)-1]), "an object")
		})
		*to = list
	}
}
