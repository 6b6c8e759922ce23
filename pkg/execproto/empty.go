package execproto

import (
	"errors"
	"fmt"

	"codex.internal/pkg/wire/jsonwire"
)

// Empty is the result of the requests that return nothing: {}.
type Empty struct{}

func (*Empty) Fields(*jsonwire.Codec) {}

// AppendJSON appends {}.
func (Empty) AppendJSON(b []byte) []byte { return append(b, "{}"...) }

// DecodeEmpty checks the params of a method without params: absent, null or {}.
func DecodeEmpty(src []byte) error {
	if src == nil {
		return nil
	}
	r := jsonwire.NewReader(src)
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
