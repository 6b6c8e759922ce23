package rendezvous

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"codex.internal/pkg/internal/tokens"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/wire/secret"
)

// errTicket means that a URL was not signed by the service, or has expired.
var errTicket = errors.New("the URL is not one of this service's, or has expired")

// signer signs the values that the service issues and later checks.
type signer struct {
	secret.Unprinted
	key [KeyBytes]byte
}

// newSigner makes a signer with its own key.
func newSigner() *signer {
	s := new(signer)
	_, _ = rand.Read(s.key[:]) // never fails
	return s
}

// sign returns the signature of fields for a purpose. The length of each field is signed too, so
// that no bytes can be moved from one field to the next.
func (s *signer) sign(purpose string, fields ...string) []byte {
	mac := hmac.New(sha256.New, s.key[:])
	for _, field := range append([]string{purpose}, fields...) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(field)))
		mac.Write(size[:])
		mac.Write([]byte(field))
	}
	return mac.Sum(nil)
}

// These are the values of the role in a URL.
const (
	endExecutor = "environment"
	endHarness  = "harness"
)

// ticket is the content of a websocket's signed URL.
type ticket struct {
	end          string // endExecutor or endHarness
	environment  string
	registration string
	token        string // id of its owner's token
	identity     string // of a harness: the digest of its key, and what its token permits if that is not everything: Token.access
	agent        string // the User-Agent of the call that it answers; see relay.ReadDescription
	expires      time.Time
}

// These are the names of a ticket's values in the query of its URL.
const (
	queryEnd          = "role"
	queryEnvironment  = "environment_id"
	queryRegistration = "executor_registration_id"
	queryToken        = "token_id"
	queryIdentity     = "harness_key_sha256"
	queryAgent        = "user_agent" // absent if the end sent none
	queryExpires      = "expires"
	querySignature    = "signature"
)

func (t *ticket) sign(s *signer) string {
	fields := []string{t.end, t.environment, t.registration, t.token, t.identity, strconv.FormatInt(t.expires.Unix(), 10)}
	if t.agent != "" {
		fields = append(fields, t.agent)
	}
	return base64.RawURLEncoding.EncodeToString(s.sign("url", fields...))
}

// query returns the signed query of the ticket's URL.
func (t *ticket) query(s *signer) string {
	values := url.Values{
		queryEnd: {t.end}, queryEnvironment: {t.environment}, queryRegistration: {t.registration},
		queryToken: {t.token}, queryIdentity: {t.identity},
		queryExpires: {strconv.FormatInt(t.expires.Unix(), 10)}, querySignature: {t.sign(s)},
	}
	if t.agent != "" {
		values.Set(queryAgent, t.agent)
	}
	return values.Encode()
}

// readTicket reads and checks the query of a URL; the error is errTicket.
func readTicket(query string, s *signer, now time.Time) (ticket, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return ticket{}, errTicket
	}
	one := func(name string) string {
		if len(values[name]) != 1 {
			err = errTicket
			return ""
		}
		return values[name][0]
	}
	t := ticket{
		end: one(queryEnd), environment: one(queryEnvironment), registration: one(queryRegistration),
		token: one(queryToken), identity: one(queryIdentity),
	}
	if values.Has(queryAgent) {
		t.agent = one(queryAgent)
	}
	seconds, parseErr := strconv.ParseInt(one(queryExpires), 10, 64)
	t.expires = time.Unix(seconds, 0)
	signature := one(querySignature)
	if err != nil || parseErr != nil || !hmac.Equal([]byte(signature), []byte(t.sign(s))) || !now.Before(t.expires) {
		return ticket{}, errTicket
	}
	return t, nil
}

// keyDigest returns the digest that identifies a key in URLs and signatures.
func keyDigest(key noise.PublicKey) string { return tokens.Digest(string(key.AppendJSON(nil))) }

// grant is the content of a harness's authorization.
type grant struct {
	environment, registration, identity string
}

// authorizations creates and checks the texts with which an executor asks the service to validate a
// harness. Each text is accepted only once, so that the relay cannot replay a handshake; see
// State.Spend. The methods may be called from any goroutine.
type authorizations struct {
	secret.Unprinted
	signer signer
}

// authorization is the readable content of an authorization.
type authorization struct {
	token string // id of the harness's token
	nonce string
	until time.Time
}

// make returns an authorization with a nonce from State.Nonce. It records the token on whose behalf
// it is made.
func (a authorizations) make(g grant, token, nonce string, now time.Time) string {
	expires := strconv.FormatInt(now.Add(authorizationTime).Unix(), 10)
	return strings.Join([]string{token, nonce, expires, a.sign(g, token, nonce, expires)}, ".")
}

func (a authorizations) sign(g grant, token, nonce, expires string) string {
	return base64.RawURLEncoding.EncodeToString(a.signer.sign("authorization", g.environment, g.registration, g.identity, token, nonce, expires))
}

// read decodes an authorization. It returns false if the authorization is not for the grant or has
// expired.
func (a authorizations) read(text string, g grant, now time.Time) (authorization, bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 4 {
		return authorization{}, false
	}
	token, nonce, expires := parts[0], parts[1], parts[2]
	if !hmac.Equal([]byte(parts[3]), []byte(a.sign(g, token, nonce, expires))) {
		return authorization{}, false
	}
	seconds, err := strconv.ParseInt(expires, 10, 64)
	until := time.Unix(seconds, 0)
	if err != nil || !now.Before(until) {
		return authorization{}, false
	}
	return authorization{token, nonce, until}, true
}
