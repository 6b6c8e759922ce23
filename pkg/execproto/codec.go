package execproto

import (
	"fmt"

	"codex.internal/pkg/wire/jsonwire"
	"codex.internal/pkg/wire/logtext"
)

// Object is a pointer to a type of this package. Its method fields lists the
// members of the JSON object, one line each, in the order in which they are
// written. The same list writes an object, reads one, and checks the text of one:
// a codec calls it with another mode. There is no second description of a type.
type Object interface{ fields(c *codec) }

// Pointer is *T, for a T whose pointer is an Object.
type Pointer[T any] interface {
	*T
	Object
}

// Decode decodes an object, which must be valid JSON: the params of a request or
// of a notification. A nil src means that the params are absent, which is the same
// as null. Errors of params are for the client, with code CodeInvalidParams. Byte
// slices in the result alias src, in which base64 members are decoded in place:
// src must not be changed while the result is used, and is no longer JSON.
func Decode[T any, P Pointer[T]](src []byte) (T, error) {
	var v T
	err := DecodeTo(src, P(&v))
	return v, err
}

// DecodeTo is Decode into an existing value, whose members that src does not have
// keep their values.
func DecodeTo(src []byte, to Object) error {
	if src == nil {
		src = []byte("null")
	}
	c := codec{mode: reading, r: jsonwire.NewCheckedReader(src)}
	if err := c.object(to, "an object"); err != nil {
		return err
	}
	return c.r.End()
}

// Append appends the JSON text of an object. The error is that of a raw member
// which is not JSON, such as a sandbox that a user of the client has written.
func Append(b []byte, o Object) ([]byte, error) {
	c := codec{b: append(b, '{')}
	o.fields(&c)
	return append(c.b, '}'), c.err
}

// appendObject is Append for types without raw members. It is small so that the
// compiler puts it into its callers, where it knows the type of o: o then need
// not be on the heap.
func appendObject(b []byte, o Object) []byte {
	c := codec{b: append(b, '{')}
	o.fields(&c)
	return append(c.b, '}')
}

// Check returns an error unless text, which must be valid JSON, has the members
// that Append writes for an object of this type, and no others. It is for results
// from a helper that is not trusted, and none of whose members may be null. Base64
// text is not decoded, so that a file of any size is checked without a copy.
// Values of o are not used.
func Check(text []byte, o Object) error {
	c := codec{mode: checking, r: jsonwire.NewCheckedReader(text)}
	if err := c.object(o, "a result"); err != nil {
		return err
	}
	return c.r.End()
}

// rule says what is special about a member. Without any, a reader accepts that
// the member is absent but not that it is null, and it is always written.
type rule uint8

const (
	// need means that an object without the member is refused.
	need rule = 1 << iota
	// orNull means that the member may be null, which is the same as absent.
	orNull
	// omit means that the zero value is not written.
	omit
)

type mode uint8

const (
	writing mode = iota
	reading
	checking
)

// codec goes through the members of one object after the other. To write one, it
// calls the object's fields once. To read one, it calls fields for each member of
// the text, upon which the line with the same name reads the value, and once
// more at the end, when the lines report what is missing. An object has at most 15
// members, so that costs less than a table that must be filled for each value.
type codec struct {
	mode mode
	b    []byte           // what was written
	r    *jsonwire.Reader // what is read
	err  error
	at   position
	bare bool // errors are told without the names of members
}

// position is where a codec is in the object that it reads.
type position struct {
	name  []byte // of the member in the text
	index uint8  // of the next line of fields
	found bool   // a line has that name
	twice bool   // and so had an earlier member
	ended bool   // there are no more members
	seen  uint64 // the lines whose members were found; there are at most 64
}

// visit begins a line of fields: the member with this name. It reports whether the
// caller must read or write the value, or check the elements of an array.
func (c *codec) visit(name string, rule rule, kind jsonwire.Kind, zero bool) bool {
	if c.mode == writing {
		if zero && rule&omit != 0 {
			return false
		}
		c.key(name)
		return true
	}
	bit := uint64(1) << c.at.index
	c.at.index++
	if c.at.ended {
		c.missing(name, rule, bit)
		return false
	}
	if c.at.found || string(c.at.name) != name {
		return false
	}
	c.at.found = true
	if c.at.seen&bit != 0 {
		c.at.twice = true
		return false
	}
	c.at.seen |= bit
	if c.mode == checking {
		return c.checkKind(name, kind)
	}
	if rule&orNull == 0 {
		return true
	}
	null, err := c.r.Null()
	c.err = err
	return !null && err == nil
}

func (c *codec) key(name string) {
	b := c.b
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, name...)
	c.b = append(b, '"', ':')
}

// missing notes the first member that the text does not have but should.
func (c *codec) missing(name string, rule rule, bit uint64) {
	must := rule&need != 0
	if c.mode == checking {
		must = rule&omit == 0
	}
	if must && c.at.seen&bit == 0 && c.err == nil {
		c.err = fmt.Errorf("missing field `%s`", name)
	}
}

// refuse is a line of fields that is about several members or the value of one:
// it refuses an object that has been read if wrong is true.
func (c *codec) refuse(wrong bool, err error) {
	if wrong && c.mode == reading && c.at.ended && c.err == nil {
		c.err = err
	}
}

// anyKind is the kind of values that Check does not look into.
const anyKind = jsonwire.Invalid

// checkKind checks a value without its elements, which it leaves to the caller.
func (c *codec) checkKind(name string, kind jsonwire.Kind) (elements bool) {
	switch {
	case kind != anyKind && c.r.Peek() != kind:
		c.err = fmt.Errorf("unexpected type of field `%s`", name)
	case kind == jsonwire.Number: // an integer, of which only times are signed
		_, c.err = c.r.Int64("an integer")
	case kind == jsonwire.Array:
		return true
	default:
		c.err = c.r.Skip()
	}
	return false
}

// object reads or checks an object. Names of members may be known only to one
// end of a connection, so a reader ignores those that it does not know.
func (c *codec) object(o Object, expected string) error {
	outer := c.at
	c.at = position{}
	err := c.r.Object(expected, func(name []byte) error { return c.member(o, name) })
	if err == nil {
		c.at.ended, c.at.index = true, 0
		o.fields(c)
		err = c.err
	}
	c.at = outer
	return err
}

// member reads or checks the member of the text with this name.
func (c *codec) member(o Object, name []byte) error {
	c.at.name, c.at.index, c.at.found = name, 0, false
	o.fields(c)
	switch {
	case c.mode == checking && (c.at.twice || !c.at.found):
		return fmt.Errorf("unexpected field `%s`", logtext.Clip(string(name), 64))
	case c.at.twice:
		return fmt.Errorf("duplicate field `%s`", name)
	case !c.at.found:
		return c.r.Skip()
	case c.err != nil && c.mode == reading && !c.bare:
		return fmt.Errorf("%s: %w", name, c.err)
	}
	return c.err
}
