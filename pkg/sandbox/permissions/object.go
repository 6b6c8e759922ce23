package permissions

import (
	"errors"
	"fmt"

	"codex.internal/pkg/wire/jsonwire"
)

// member decodes one member of an object.
type member struct {
	name     string
	alias    string // another name for it, "" if none
	required bool   // otherwise null counts as absent
	read     func(r *jsonwire.Reader) error
}

// object reads an object of these members. Unless open, others are errors; a
// member that is there twice always is.
func object(r *jsonwire.Reader, open bool, members ...member) error {
	var seen uint // a bit for each member
	err := r.Object("a map", func(name []byte) error {
		for i, m := range members {
			if m.name != string(name) && (m.alias == "" || m.alias != string(name)) {
				continue
			}
			if seen&(1<<i) != 0 {
				return fmt.Errorf("duplicate field `%s`", m.name)
			}
			seen |= 1 << i
			if !m.required {
				if null, err := r.Null(); err != nil || null {
					return err
				}
			}
			return inMember(m.name, m.read(r))
		}
		if !open {
			return fmt.Errorf("unknown field `%s`", clip(string(name)))
		}
		return r.Skip()
	})
	for i, m := range members {
		if err == nil && m.required && seen&(1<<i) == 0 {
			err = fmt.Errorf("missing field `%s`", m.name)
		}
	}
	return err
}

// inMember adds the name of the member to an error. Errors about paths and shapes have
// texts of their own.
func inMember(name string, err error) error {
	var p *PathError
	var s *ShapeError
	if err == nil || errors.As(err, &p) || errors.As(err, &s) {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// tagged reads an object of the kind that its member tag names: variant gets its
// text and the value of the tag.
func tagged(r *jsonwire.Reader, tag string, variant func(text []byte, value string) error) error {
	raw, err := r.Raw()
	if err != nil {
		return err
	}
	value, found, err := findTag(raw, tag)
	switch {
	case err != nil:
		return err
	case !found:
		return fmt.Errorf("missing field `%s`", tag)
	}
	return variant(raw, value)
}

// findTag finds the value of a union's tag, which may stand anywhere in it.
func findTag(raw []byte, name string) (value string, found bool, err error) {
	r := jsonwire.NewReader(raw)
	err = r.Object("a map", func(n []byte) error {
		if string(n) != name || found {
			return r.Skip()
		}
		found = true
		var err error
		value, err = r.String()
		return err
	})
	return value, found, err
}

func skip(r *jsonwire.Reader) error { return r.Skip() }

// boolean reads true or false.
func boolean(to *bool) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) (err error) {
		*to, err = r.Bool()
		return err
	}
}

// text reads a string that can be a path, a pattern or a name.
func text(to *string) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		b, err := r.StringBytes()
		if err != nil {
			return err
		}
		if len(b) > maxText {
			return errTooLong
		}
		*to = string(b)
		for _, c := range b {
			if c == 0 {
				return errNUL
			}
		}
		return nil
	}
}

// choice reads one of a few words.
func choice(to *string, words ...string) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		s, err := r.String()
		if err != nil {
			return err
		}
		for _, w := range words {
			if s == w {
				*to = s
				return nil
			}
		}
		return unknown(s, words...)
	}
}

// network reads a network mode.
func network(to *Network) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		word := ""
		err := choice(&word, "restricted", "enabled")(r)
		*to = NetworkRestricted
		if word == "enabled" {
			*to = NetworkEnabled
		}
		return err
	}
}
