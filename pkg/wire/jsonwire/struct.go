package jsonwire

import (
	"fmt"

	"codex.internal/pkg/wire/logtext"
)

// Struct is a pointer to a Go struct that is a JSON object. Its method Fields lists
// the members of the object, one line each, in the order in which they are written:
//
//	func (p *ResizeParams) Fields(c *jsonwire.Codec) {
//		c.Text("processId", jsonwire.Need, &p.ProcessID)
//		c.Uint16("rows", jsonwire.Need, &p.Rows)
//		c.Uint16("cols", jsonwire.Need, &p.Cols)
//	}
//
// The same list is used to write an object, to read one, and to check the text of one: a Codec
// has a mode for each. No type has a second description.
type Struct interface{ Fields(c *Codec) }

// Pointer is *T, for a T whose pointer is a Struct.
type Pointer[T any] interface {
	*T
	Struct
}

// FieldsFunc is a Struct for an object that is only read, and needs no Go type.
type FieldsFunc func(c *Codec)

// Fields calls f.
func (f FieldsFunc) Fields(c *Codec) { f(c) }

// AppendStruct appends the JSON text of an object. An error means that a raw member is not
// JSON, for example a sandbox from a user of the client.
func AppendStruct(b []byte, s Struct) ([]byte, error) {
	c := Codec{b: append(b, '{')}
	s.Fields(&c)
	return append(c.b, '}'), c.err
}

// Struct reads an object into s; expected names it in errors. Members that the text does not
// have keep their values. Unknown members are ignored unless Fields calls NoOthers, because one
// end of a connection may know members that the other does not. Encoded members may be decoded
// in place, and alias the reader's text: the text must not be changed while s is used, and is
// no longer JSON.
func (r *Reader) Struct(expected string, s Struct) error {
	c := Codec{mode: reading, r: r}
	return c.object(s, expected)
}

// Check returns an error if text lacks a member that AppendStruct writes for an object of this
// type, or has any other member. text must be valid JSON. Check is for results of an untrusted
// helper, whose members must not be null. It does not decode encoded text, so that it checks a
// file of any size without a copy. It ignores the values of s.
func Check(text []byte, s Struct) error {
	c := Codec{mode: checking, r: NewCheckedReader(text)}
	if err := c.object(s, "a result"); err != nil {
		return err
	}
	return c.r.End()
}

// Rule has the special rules of a member. Without any, a reader accepts an object without the
// member, but does not accept null; a writer always writes the member.
type Rule uint8

const (
	// Need means that a reader refuses an object without the member.
	Need Rule = 1 << iota
	// OrNull means that the member may be null, which means the same as absent.
	OrNull
	// Omit means that the zero value is not written.
	Omit
)

type mode uint8

const (
	writing mode = iota
	reading
	checking
)

// Codec goes through the members of one object after the other. To write one, it calls the
// object's Fields once. To read one, it calls Fields for each member of the text: the line with
// the same name reads the value. At the end it calls Fields once more, so that the lines report
// missing members. An object has at most 20 members, so this costs less than a table that must
// be filled for each value.
//
// The lines of Fields are calls of the Codec's methods and of the package's
// generic functions that take a Codec. Their parameters are the member's name, its
// rule and its value.
type Codec struct {
	mode mode
	b    []byte  // the written text
	r    *Reader // the text that is read
	err  error
	at   position
	bare bool // errors do not name the members
}

// position is the position of a Codec in the object that it reads.
type position struct {
	name   []byte // name of the member in the text
	index  uint8  // index of the next line of Fields
	found  bool   // a line has the name
	twice  bool   // an earlier member had the same name
	ended  bool   // the object has no more members
	closed bool   // unknown members are errors
	seen   uint64 // the lines whose members were found; there are at most 64
}

// visit begins a line of Fields: the member with this name. It reports whether the
// caller must read or write the value, or check the elements of an array.
func (c *Codec) visit(name string, rule Rule, kind Kind, zero bool) bool {
	if c.mode == writing {
		if zero && rule&Omit != 0 {
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
	if rule&OrNull == 0 {
		return true
	}
	null, err := c.r.Null()
	c.err = err
	return !null && err == nil
}

func (c *Codec) key(name string) {
	b := c.b
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, name...)
	c.b = append(b, '"', ':')
}

// missing records the first member that the text should have and does not have.
func (c *Codec) missing(name string, rule Rule, bit uint64) {
	must := rule&Need != 0
	if c.mode == checking {
		must = rule&Omit == 0
	}
	if must && c.at.seen&bit == 0 && c.err == nil {
		c.err = fmt.Errorf("missing field `%s`", name)
	}
}

// Refuse is a line of Fields about the value of one or several members. If wrong is true, a
// reader refuses the object with err.
func (c *Codec) Refuse(wrong bool, err error) {
	if wrong && c.mode == reading && c.at.ended && c.err == nil {
		c.err = err
	}
}

// NoOthers is a line of Fields: a reader refuses members that no line names.
func (c *Codec) NoOthers() { c.at.closed = true }

// anyKind is the kind of values that Check does not examine.
const anyKind = Invalid

// checkKind checks a value but not its elements, which are left to the caller.
func (c *Codec) checkKind(name string, kind Kind) (elements bool) {
	switch {
	case kind != anyKind && c.r.Peek() != kind:
		c.err = fmt.Errorf("unexpected type of field `%s`", name)
	case kind == Number: // an integer; of the integers, only times are signed
		_, c.err = c.r.Int64("an integer")
	case kind == Array:
		return true
	default:
		c.err = c.r.Skip()
	}
	return false
}

// object reads or checks an object.
func (c *Codec) object(s Struct, expected string) error {
	outer := c.at
	c.at = position{}
	err := c.r.Object(expected, func(name []byte) error { return c.member(s, name) })
	if err == nil {
		c.at.ended, c.at.index = true, 0
		s.Fields(c)
		err = c.err
	}
	c.at = outer
	return err
}

// member reads or checks the member of the text with this name.
func (c *Codec) member(s Struct, name []byte) error {
	const show = 64
	c.at.name, c.at.index, c.at.found = name, 0, false
	s.Fields(c)
	switch {
	case c.mode == checking && (c.at.twice || !c.at.found):
		return fmt.Errorf("unexpected field `%s`", logtext.Clip(string(name), show))
	case c.at.twice:
		return fmt.Errorf("duplicate field `%s`", name)
	case !c.at.found && c.at.closed:
		return fmt.Errorf("unknown field `%s`", logtext.Clip(string(name), show))
	case !c.at.found:
		return c.r.Skip()
	case c.err != nil && c.mode == reading && !c.bare:
		return fmt.Errorf("%s: %w", name, c.err)
	}
	return c.err
}

// write writes an object within another one.
func (c *Codec) write(s Struct) {
	c.b = append(c.b, '{')
	s.Fields(c)
	c.b = append(c.b, '}')
}
