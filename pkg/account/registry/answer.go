package registry

import (
	"errors"
	"fmt"
	"strings"

	"codex.internal/pkg/account/httpclient"
	"codex.internal/pkg/internal/tokens"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/wire/jsonwire"
)

// bundle is the answer to a registration.
type bundle struct {
	environmentID, url, securityProfile, registrationID string
	acceptsDescription, sendsGrants                     bool
}

// Fields lists the members for jsonwire.
func (b *bundle) Fields(c *jsonwire.Codec) {
	c.Text("environment_id", jsonwire.Need, &b.environmentID)
	c.Text("url", jsonwire.Need, &b.url)
	c.Text("security_profile", jsonwire.Need, &b.securityProfile)
	c.Text("executor_registration_id", jsonwire.Need, &b.registrationID)
	announcement(c, "accepts_description", &b.acceptsDescription)
	announcement(c, "sends_grants", &b.sendsGrants)
}

// announcement reads a member that announces an extension by the value true. Any other value, of
// any type, does not announce it.
func announcement(c *jsonwire.Codec, name string, announced *bool) {
	c.Read(name, 0, func(r *jsonwire.Reader) error {
		value, err := r.Raw()
		*announced = string(value) == "true"
		return err
	})
}

// check checks that the answer belongs to the request.
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

// connectAnswer is the answer to the request how to connect.
type connectAnswer struct {
	bundle
	executorKey   noise.PublicKey
	keyErr        error // why the key is malformed, or nil
	authorization string
}

// Fields lists the members for jsonwire.
func (a *connectAnswer) Fields(c *jsonwire.Codec) {
	a.bundle.Fields(c)
	c.Read("executor_public_key", jsonwire.Need, func(r *jsonwire.Reader) error {
		document, err := r.Raw()
		if err != nil {
			return err
		}
		err = a.executorKey.UnmarshalJSON(document)
		if errors.Is(err, noise.ErrPublicKey) {
			a.keyErr = err // reported by check, after everything else
			return nil
		}
		return err
	})
	c.Text("harness_key_authorization", jsonwire.Need, &a.authorization)
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

// validateAnswer is the answer to the request whether a harness may connect.
type validateAnswer struct {
	acceptsGrant bool // the question said so
	valid        bool
	grant        *Grant // nil: there is none
}

// Fields lists the members for jsonwire.
func (a *validateAnswer) Fields(c *jsonwire.Codec) {
	c.Bool("valid", jsonwire.Need, &a.valid)
	c.Read("grant", 0, func(r *jsonwire.Reader) error {
		text, err := r.Raw()
		if err == nil && a.acceptsGrant { // else it is not the grant of docs/spec/relay.md §8.5
			a.grant, err = tokens.ParseGrant(text)
		}
		return err
	})
}

// decode decodes an answer. It ignores members that its type does not have. A duplicate member is
// an error.
func decode(body []byte, to jsonwire.Struct) error {
	r := jsonwire.NewReader(body)
	err := r.Struct("an object", to)
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return &DecodeError{Err: err}
	}
	return nil
}
