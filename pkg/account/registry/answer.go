package registry

import (
	"errors"
	"fmt"
	"strings"

	"codex.internal/pkg/account/httpclient"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/wire/jsonwire"
)

// answer is a registry's answer to a question.
type answer interface {
	// members are all that the answer has to have.
	members() []member
}

// member is a member of an answer and what reads its value.
type member struct {
	name     string
	read     func(*jsonwire.Reader) error
	optional bool // the answer need not have it
}

// text reads a string.
func text(to *string) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) (err error) {
		*to, err = r.String()
		return err
	}
}

// announced reads whether the service announces a feature. Any value but true, of any type, is no
// announcement.
func announced(to *bool) func(*jsonwire.Reader) error {
	return func(r *jsonwire.Reader) error {
		value, err := r.Raw()
		*to = string(value) == "true"
		return err
	}
}

// bundle is the answer to a registration.
type bundle struct {
	environmentID, url, securityProfile, registrationID string
	acceptsDescription                                  bool
}

func (b *bundle) members() []member {
	return []member{
		{name: "environment_id", read: text(&b.environmentID)},
		{name: "url", read: text(&b.url)},
		{name: "security_profile", read: text(&b.securityProfile)},
		{name: "executor_registration_id", read: text(&b.registrationID)},
		{name: "accepts_description", read: announced(&b.acceptsDescription), optional: true},
	}
}

// check checks that the answer is about what was asked.
func (b *bundle) check(environmentID string) error {
	switch {
	case b.environmentID != environmentID:
		return &ProtocolError{"environment registry returned a different environment id"}
	case b.securityProfile != securityProfile:
		profile := cut(httpclient.PlainText(b.securityProfile), maxPreview)
		return &ProtocolError{fmt.Sprintf("environment registry returned unsupported security profile `%s`", profile)}
	default:
		return nil
	}
}

// connectAnswer is the answer to the question how to connect.
type connectAnswer struct {
	bundle
	executorKey   noise.PublicKey
	keyErr        error // the key is none; nil: it may be one
	authorization string
}

func (a *connectAnswer) members() []member {
	return append(a.bundle.members(),
		member{name: "executor_public_key", read: func(r *jsonwire.Reader) error {
			document, err := r.Raw()
			if err != nil {
				return err
			}
			err = a.executorKey.UnmarshalJSON(document)
			if errors.Is(err, noise.ErrPublicKey) {
				a.keyErr = err // as the last thing that is wrong
				return nil
			}
			return err
		}},
		member{name: "harness_key_authorization", read: text(&a.authorization)},
	)
}

func (a *connectAnswer) check(environmentID string) error {
	if err := a.bundle.check(environmentID); err != nil {
		return err
	}
	for _, value := range []string{a.url, a.registrationID, a.authorization} {
		if strings.TrimSpace(value) == "" {
			return &ProtocolError{"environment registry returned incomplete Noise connection data"}
		}
	}
	if a.keyErr != nil {
		return &ProtocolError{a.keyErr.Error()}
	}
	return nil
}

// validateAnswer is the answer to the question whether a harness may connect.
type validateAnswer struct{ valid bool }

func (a *validateAnswer) members() []member {
	return []member{{name: "valid", read: func(r *jsonwire.Reader) (err error) {
		a.valid, err = r.Bool()
		return err
	}}}
}

// decode reads an answer; what it has beyond is ignored.
func decode(body []byte, to answer) error {
	members := to.members()
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.name
	}
	values, err := split(body, names...)
	if err != nil {
		return &DecodeError{Err: err}
	}
	for _, m := range members {
		switch {
		case values[m.name] == nil && m.optional:
			continue
		case values[m.name] == nil:
			return &DecodeError{Err: fmt.Errorf("missing field `%s`", m.name)}
		}
		if err := m.read(jsonwire.NewCheckedReader(values[m.name])); err != nil {
			return &DecodeError{Err: fmt.Errorf("%s: %w", m.name, err)}
		}
	}
	return nil
}

// split returns the named members of an object, nil for one that is missing.
// Each may be there once, and in no other case of its letters: what an answer
// says must not depend on who reads it.
func split(object []byte, names ...string) (map[string][]byte, error) {
	values := make(map[string][]byte, len(names))
	for _, name := range names {
		values[name] = nil
	}
	r := jsonwire.NewReader(object)
	err := r.Object("an object", func(name []byte) error {
		known := string(name)
		switch value, ok := values[known]; {
		case !ok:
			return r.Skip()
		case value != nil:
			return fmt.Errorf("duplicate field `%s`", name)
		}
		value, err := r.Raw()
		values[known] = value
		return err
	})
	if err == nil {
		err = r.End()
	}
	return values, err
}
