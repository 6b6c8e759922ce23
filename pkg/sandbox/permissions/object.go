package permissions

import (
	"bytes"
	"errors"
	"fmt"

	"codex.internal/pkg/wire/jsonwire"
)

// The rules of members: see jsonwire.Rule.
const (
	need   = jsonwire.Need
	orNull = jsonwire.OrNull
)

// tagged reads an object whose member tag determines its other members: fields returns
// their list for the value of the tag.
func tagged(r *jsonwire.Reader, tag string, fields func(value string) (jsonwire.FieldsFunc, error)) error {
	raw, err := r.Raw()
	if err != nil {
		return err
	}
	found, err := find(raw, tag)
	switch {
	case err != nil:
		return err
	case found == nil:
		return fmt.Errorf("missing field `%s`", tag)
	}
	value, err := jsonwire.NewReader(found).String()
	if err != nil {
		return err
	}
	others, err := fields(value)
	if err != nil {
		return err
	}
	return jsonwire.NewReader(raw).Struct("a map", jsonwire.FieldsFunc(func(c *jsonwire.Codec) {
		c.Read(tag, need, (*jsonwire.Reader).Skip)
		others(c)
	}))
}

// noFields are the members of an object that has only the tag.
func noFields(*jsonwire.Codec) {}

// find returns the value of the first member of an object with this name, or nil.
func find(object []byte, name string) (value []byte, err error) {
	r := jsonwire.NewReader(object)
	err = r.Object("a map", func(n []byte) error {
		if value != nil || string(n) != name {
			return r.Skip()
		}
		var err error
		value, err = r.Raw()
		return err
	})
	return value, err
}

// bare returns the error about a path or a shape that err contains, without the names of the
// enclosing members: the protocol has its own texts for these.
func bare(err error) error {
	if p, ok := errors.AsType[*PathError](err); ok {
		return p
	}
	if s, ok := errors.AsType[*ShapeError](err); ok {
		return s
	}
	return err
}

// text reads a string for a path, a pattern or a name.
func text(to *string) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		b, err := r.StringBytes()
		switch {
		case err != nil:
			return err
		case len(b) > maxText:
			return errTooLong
		case bytes.IndexByte(b, 0) >= 0:
			return errNUL
		}
		*to = string(b)
		return nil
	}
}

// network reads a network mode.
func network(to *Network) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		word, err := jsonwire.ReadWord(r, "restricted", "enabled")
		*to = NetworkRestricted
		if word == "enabled" {
			*to = NetworkEnabled
		}
		return err
	}
}
