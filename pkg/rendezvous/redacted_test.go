package rendezvous

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// TestNothingPrintsCredentials prints every type that contains a credential, or the key that signs
// credentials.
func TestNothingPrintsCredentials(t *testing.T) {
	const secret = "secret"
	s := new(signer)
	copy(s.key[:], strings.Repeat(secret, 6))
	bundle := registerResponse{URL: "wss://x/?" + secret}
	a := authorizations{signer: *s}
	keys := Keys{URLs: s.key, Authorizations: s.key}
	for _, v := range []any{
		s, *s, a, &a, keys, &keys, &registry{keys: keys}, bundle, &bundle, connectResponse{registerResponse: bundle, ExecutorPublicKey: identity(), HarnessKeyAuthorization: secret}, &Server{urls: s, authorizations: a}, &validateRequest{HarnessKeyAuthorization: secret},
	} {
		var out strings.Builder
		for _, v := range []any{v, []any{v}, struct{ V any }{v}} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
				fmt.Fprintf(&out, verb, v)
			}
			slog.New(slog.NewTextHandler(&out, nil)).Info("m", "v", v)
		}
		for _, spelling := range []string{secret, "736563726574", "115 101 99 114", "0x73, 0x65, 0x63"} {
			if strings.Contains(out.String(), spelling) {
				t.Errorf("%T is printed as %s", v, out.String())
			}
		}
	}
}
