package jsonwire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"codex.internal/pkg/wire/logtext"
)

// The lines of Fields: each writes, reads or checks one member.

// Text is a member with a string.
func (c *Codec) Text(name string, rule Rule, to *string) { Word(c, name, rule, to) }

// Word is a member with a string of its own Go type.
func Word[S ~string](c *Codec, name string, rule Rule, to *S) {
	if c.visit(name, rule, String, *to == "") {
		TextValue(c, to)
	}
}

// Choice is a member with a string that must be one of words when it is read. If the member may
// be absent, the first word is the default.
func Choice[S ~string](c *Codec, name string, rule Rule, to *S, words []S) {
	switch {
	case c.visit(name, rule, String, *to == ""):
		choiceValue(c, to, words)
	case c.mode == reading && c.at.ended && rule&Need == 0 && *to == "":
		*to = words[0]
	}
}

// Bool is a member with a boolean.
func (c *Codec) Bool(name string, rule Rule, to *bool) {
	if c.visit(name, rule, Bool, !*to) {
		BoolValue(c, to)
	}
}

// Uint64 is a member with an unsigned integer of 64 bits.
func (c *Codec) Uint64(name string, rule Rule, to *uint64) {
	if c.visit(name, rule, Number, *to == 0) {
		Uint64Value(c, to)
	}
}

// Uint32 is a member with an unsigned integer of 32 bits.
func (c *Codec) Uint32(name string, rule Rule, to *uint32) {
	if c.visit(name, rule, Number, *to == 0) {
		Uint32Value(c, to)
	}
}

// Uint16 is a member with an unsigned integer of 16 bits.
func (c *Codec) Uint16(name string, rule Rule, to *uint16) {
	if c.visit(name, rule, Number, *to == 0) {
		Uint16Value(c, to)
	}
}

// Int64 is a member with an integer of 64 bits.
func (c *Codec) Int64(name string, rule Rule, to *int64) {
	if c.visit(name, rule, Number, *to == 0) {
		Int64Value(c, to)
	}
}

// Int is a member with an exit code or a status.
func (c *Codec) Int(name string, rule Rule, to *int) {
	if c.visit(name, rule, Number, *to == 0) {
		IntValue(c, to)
	}
}

// Encoded is a member with data as a string in some encoding. appendString appends the string
// of the data. decode returns the data of a string, which it may change and alias. Nil is
// written as the empty string, or as null if rule has OrNull.
func (c *Codec) Encoded(name string, rule Rule, to *[]byte, appendString func(b, data []byte) []byte, decode func(text []byte) ([]byte, error)) {
	switch {
	case !c.visit(name, rule, String, *to == nil):
	case c.mode == reading:
		b, err := c.r.StringBytes()
		if err == nil {
			b, err = decode(b)
		}
		*to, c.err = b, err
	case *to == nil && rule&OrNull != 0:
		c.b = append(c.b, "null"...)
	default:
		c.b = appendString(c.b, *to)
	}
}

// Base64Text is a member with base64 text that is not decoded. It aliases the input.
func (c *Codec) Base64Text(name string, rule Rule, to *[]byte) {
	if c.visit(name, rule, String, len(*to) == 0) {
		value(c, to, AppendString, (*Reader).StringBytes)
	}
}

// Raw is a member with any value as its JSON text, which a reader copies. nil is written as
// null unless rule has Omit. A text is checked before it is written, and its line ends are
// replaced, because over stdio a message is one line.
func (c *Codec) Raw(name string, rule Rule, to *json.RawMessage) {
	switch {
	case !c.visit(name, rule, anyKind, len(*to) == 0):
	case c.mode == reading:
		value, err := c.r.Raw()
		*to, c.err = bytes.Clone(value), err
	case len(*to) == 0:
		c.b = append(c.b, "null"...)
	default:
		b, err := AppendRaw(c.b, *to)
		c.b = b
		if err != nil && c.err == nil {
			c.err = fmt.Errorf("%s: %w", name, err)
		}
	}
}

// Read is a member that is only read: the function read must read or skip its value.
func (c *Codec) Read(name string, rule Rule, read func(r *Reader) error) {
	if c.visit(name, rule, anyKind, false) {
		c.err = read(c.r)
	}
}

// LaxText is a member with a string that is only read. A value of another kind is skipped.
func (c *Codec) LaxText(name string, to *string) {
	c.Read(name, 0, func(r *Reader) (err error) {
		if r.Peek() != String {
			return r.Skip()
		}
		*to, err = r.String()
		return err
	})
}

// Struct is a member with an object.
func (c *Codec) Struct(name string, rule Rule, to Struct) {
	if c.visit(name, rule, Object, false) {
		c.structValue(to)
	}
}

// MaxElements bounds lists of strings and of objects: a list may have as many elements as a
// directory may have names. Scenario: a hostile server answers with four million names of a
// directory. Decoded, they take ten times the memory of the message.
const MaxElements = 1 << 20

// Texts is a member with a list of strings.
func (c *Codec) Texts(name string, rule Rule, to *[]string) {
	List(c, name, rule, to, MaxElements, TextValue)
}

// Structs is a member with a list of objects.
func Structs[T any, P Pointer[T]](c *Codec, name string, rule Rule, to *[]T) {
	if c.visit(name, rule, Array, len(*to) == 0) {
		ListValue(c, to, MaxElements, StructValue[T, P])
	}
}

// List is a member with a list of values, at most as many as given.
func List[T any](c *Codec, name string, rule Rule, to *[]T, most int, value func(*Codec, *T)) {
	if c.visit(name, rule, Array, *to == nil) {
		ListValue(c, to, most, value)
	}
}

// TextMap is a member with an object whose values are strings.
func (c *Codec) TextMap(name string, rule Rule, to *map[string]string) {
	mapOf(c, name, rule, to, TextValue)
}

// ChoiceMap is a member with an object whose values are each one of words.
func ChoiceMap[S ~string](c *Codec, name string, rule Rule, to *map[string]S, words []S) {
	mapOf(c, name, rule, to, func(c *Codec, to *S) { choiceValue(c, to, words) })
}

// mapOf is a member with an object that may have any names. The names are written in ascending
// order. If several members have the same name, a reader takes the last one.
func mapOf[T any](c *Codec, name string, rule Rule, to *map[string]T, value func(*Codec, *T)) {
	if !c.visit(name, rule, Object, *to == nil) {
		return
	}
	if c.mode == writing {
		c.b = append(c.b, '{')
		for i, key := range slices.Sorted(maps.Keys(*to)) {
			if i > 0 {
				c.b = append(c.b, ',')
			}
			c.b = append(AppendString(c.b, key), ':')
			element := (*to)[key]
			value(c, &element)
		}
		c.b = append(c.b, '}')
		return
	}
	m := make(map[string]T)
	c.err = c.r.Object("a map", func(name []byte) error {
		key := string(name)
		var element T
		value(c, &element)
		m[key] = element
		return c.err
	})
	*to = m
}

// Optional is a member that may be absent or null, for which the Go value is nil. nil is
// written as null unless rule has Omit.
func Optional[T any](c *Codec, name string, rule Rule, to **T, value func(*Codec, *T)) {
	switch {
	case !c.visit(name, rule, anyKind, *to == nil):
	case c.mode == reading:
		*to = new(T)
		value(c, *to)
	case *to == nil:
		c.b = append(c.b, "null"...)
	default:
		value(c, *to)
	}
}

// The functions for values of optional members and for elements of lists.

// TextValue is a string.
func TextValue[S ~string](c *Codec, to *S) {
	value(c, to, AppendString, func(r *Reader) (S, error) {
		b, err := r.StringBytes()
		return S(b), err
	})
}

// BoolValue is a boolean.
func BoolValue(c *Codec, to *bool) { value(c, to, AppendBool, (*Reader).Bool) }

// Uint64Value is an integer of 64 bits without a sign.
func Uint64Value(c *Codec, to *uint64) { value(c, to, AppendUint, (*Reader).Uint64) }

// Uint32Value is an integer of 32 bits without a sign.
func Uint32Value(c *Codec, to *uint32) { uintValue(c, to, math.MaxUint32, "u32") }

// Uint16Value is an integer of 16 bits without a sign.
func Uint16Value(c *Codec, to *uint16) { uintValue(c, to, math.MaxUint16, "u16") }

// Int64Value is an integer of 64 bits.
func Int64Value(c *Codec, to *int64) { intValue(c, to, "i64") }

// IntValue is an exit code or a status.
func IntValue(c *Codec, to *int) { intValue(c, to, "i32") }

func uintValue[T ~uint16 | ~uint32](c *Codec, to *T, most uint64, expected string) {
	value(c, to, func(b []byte, v T) []byte { return AppendUint(b, uint64(v)) }, func(r *Reader) (T, error) {
		n, err := r.Uint(most, expected)
		return T(n), err
	})
}

func intValue[T ~int | ~int64](c *Codec, to *T, expected string) {
	value(c, to, func(b []byte, v T) []byte { return AppendInt(b, int64(v)) }, func(r *Reader) (T, error) {
		n, err := r.Int64(expected)
		return T(n), err
	})
}

// value writes or reads one value.
func value[T any](c *Codec, to *T, write func([]byte, T) []byte, read func(*Reader) (T, error)) {
	if c.mode == writing {
		c.b = write(c.b, *to)
		return
	}
	*to, c.err = read(c.r)
}

// StructValue is an object.
func StructValue[T any, P Pointer[T]](c *Codec, to *T) { c.structValue(P(to)) }

func (c *Codec) structValue(to Struct) {
	switch c.mode {
	case writing:
		c.write(to)
	case checking:
		c.err = c.object(to, "a result")
	default:
		c.err = c.object(to, "an object")
	}
}

// BareStructValue is StructValue for an object whose errors do not give a position
// in the message: clients compare these errors with Codex CLI's.
func BareStructValue[T any, P Pointer[T]](c *Codec, to *T) {
	c.bare = true
	StructValue[T, P](c, to)
	c.bare = c.err != nil
}

// ListValue is a list of at most the given number of values.
func ListValue[T any](c *Codec, to *[]T, most int, value func(*Codec, *T)) {
	if c.mode == writing {
		c.b = append(c.b, '[')
		for i := range *to {
			if i > 0 {
				c.b = append(c.b, ',')
			}
			value(c, &(*to)[i])
		}
		c.b = append(c.b, ']')
		return
	}
	list := []T{}
	c.err = c.r.Array("a sequence", func() error {
		if len(list) == most {
			return fmt.Errorf("at most %d elements are allowed", most)
		}
		if c.mode == checking { // the values are dropped
			value(c, new(T))
			return c.err
		}
		list = append(list, *new(T))
		value(c, &list[len(list)-1])
		return c.err
	})
	if c.mode == reading {
		*to = list
	}
}

func choiceValue[S ~string](c *Codec, to *S, words []S) {
	value(c, to, AppendString, func(r *Reader) (S, error) { return ReadWord(r, words...) })
}

// ReadWord reads a string that is one of words.
func ReadWord[S ~string](r *Reader, words ...S) (S, error) {
	b, err := r.StringBytes()
	if err != nil {
		return "", err
	}
	for _, w := range words {
		if string(b) == string(w) {
			return w, nil
		}
	}
	return "", UnknownWord(string(b), words...)
}

// UnknownWord returns the error for a string that is not one of words.
func UnknownWord[S ~string](got string, words ...S) error {
	const show = 64
	expected := make([]string, len(words))
	for i, w := range words {
		expected[i] = "`" + string(w) + "`"
	}
	listed := "one of " + strings.Join(expected, ", ")
	if len(expected) == 2 {
		listed = strings.Join(expected, " or ")
	}
	return fmt.Errorf("unknown variant `%s`, expected %s", logtext.Clip(got, show), listed)
}
