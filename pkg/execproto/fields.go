package execproto

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"

	"codex.internal/pkg/wire/jsonwire"
)

// field decodes one member of an object. The decoders of this package are lists of
// fields, which object reads.
type field struct {
	name string
	read func(r *jsonwire.Reader) error
	// required members must be there. nullable ones may be null, which
	// means the same as absent.
	required, nullable bool
}

func need(name string, read func(*jsonwire.Reader) error) field {
	return field{name: name, read: read, required: true}
}

// maybe is an optional member that may not be null.
func maybe(name string, read func(*jsonwire.Reader) error) field {
	return field{name: name, read: read}
}

// orNull is an optional member that may be null.
func orNull(name string, read func(*jsonwire.Reader) error) field {
	return field{name: name, read: read, nullable: true}
}

// params decodes the params of a request, which must be valid JSON; nil is null.
func params(text []byte, fields ...field) error {
	if text == nil {
		text = []byte("null")
	}
	r := jsonwire.NewCheckedReader(text)
	if err := object(r, fields); err != nil {
		return err
	}
	return r.End()
}

// object reads an object with the given members; others are ignored.
func object(r *jsonwire.Reader, fields []field) error {
	var seen uint64 // no object of the protocol has more than 64 members
	err := r.Object("an object", func(name []byte) error {
		for i := range fields {
			if string(name) != fields[i].name {
				continue
			}
			if seen&(1<<i) != 0 {
				return fmt.Errorf("duplicate field `%s`", name)
			}
			seen |= 1 << i
			return fields[i].decode(r)
		}
		return r.Skip()
	})
	if err != nil {
		return err
	}
	for i := range fields {
		if fields[i].required && seen&(1<<i) == 0 {
			return fmt.Errorf("missing field `%s`", fields[i].name)
		}
	}
	return nil
}

func (f *field) decode(r *jsonwire.Reader) error {
	if f.nullable {
		if null, err := r.Null(); null || err != nil {
			return err
		}
	}
	if err := f.read(r); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

// text reads a string.
func text[S ~string](to *S) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		s, err := r.String()
		*to = S(s)
		return err
	}
}

// choice reads a string that must be one of words.
func choice[S ~string](to *S, words ...S) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		b, err := r.StringBytes()
		if err != nil {
			return err
		}
		expected := make([]string, len(words))
		for i, w := range words {
			if string(b) == string(w) {
				*to = w
				return nil
			}
			expected[i] = "`" + string(w) + "`"
		}
		const show = 64
		return fmt.Errorf("unknown variant `%s`, expected one of %s", b[:min(len(b), show)], strings.Join(expected, ", "))
	}
}

func boolean(to *bool) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) (err error) {
		*to, err = r.Bool()
		return err
	}
}

func uint64s(to *uint64) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) (err error) {
		*to, err = r.Uint64()
		return err
	}
}

func uint16s(to *uint16) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		n, err := r.Uint(math.MaxUint16, "u16")
		*to = uint16(n)
		return err
	}
}

// pointer reads into a new value.
func pointer[T any](to **T, read func(*T) func(*jsonwire.Reader) error) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		v := new(T)
		*to = v
		return read(v)(r)
	}
}

// base64Bytes reads base64 text and decodes it in place.
func base64Bytes(to *[]byte) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		b, err := r.StringBytes()
		if err != nil {
			return err
		}
		*to, err = jsonwire.DecodeBase64InPlace(b)
		return err
	}
}

// list reads an array, element by element.
func list[T any](to *[]T, element func(*T) func(*jsonwire.Reader) error) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		*to = []T{}
		return r.Array("a sequence", func() error {
			var v T
			if err := element(&v)(r); err != nil {
				return err
			}
			*to = append(*to, v)
			return nil
		})
	}
}

// stringMap reads an object whose values are strings. Of several members with the
// same name, the last one counts.
func stringMap(to *map[string]string) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		*to = make(map[string]string)
		return r.Object("a map", func(name []byte) error {
			key := string(name)
			value, err := r.String()
			(*to)[key] = value
			return err
		})
	}
}

// nested reads an object within an object.
func nested(fields ...field) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error { return object(r, fields) }
}

// rawJSON reads a value as a copy of its JSON text.
func rawJSON[B ~[]byte](to *B) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		raw, err := r.Raw()
		*to = bytes.Clone(raw)
		return err
	}
}

// DecodeEmpty checks the params of a method that has none: absent, null
// or {}.
func DecodeEmpty(text []byte) error {
	if text == nil {
		return nil
	}
	r := jsonwire.NewReader(text)
	if null, err := r.Null(); null || err != nil {
		return errors.Join(err, r.End())
	}
	err := r.Object("unit", func(name []byte) error {
		return fmt.Errorf("unexpected field `%s`: the method takes no params", name)
	})
	if err != nil {
		return err
	}
	return r.End()
}
