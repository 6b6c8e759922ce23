package statuspage

import (
	"testing"
	"time"

	"codex.internal/pkg/execserver/wsauth"
)

// TestProofsEnd: a confirmation is valid for a limited time, and only for one client and one
// process.
func TestProofsEnd(t *testing.T) {
	key := newSecret()
	grant := &wsauth.Grant{Principal: "p", Token: "t"}
	now := time.Now()
	proof := key.proof(grant, "ref", now)
	for name, tt := range map[string]struct {
		key   secret
		grant wsauth.Grant
		ref   string
		at    time.Time
		want  bool
	}{
		"now":               {key, *grant, "ref", now, true},
		"soon":              {key, *grant, "ref", now.Add(proofTime), true},
		"late":              {key, *grant, "ref", now.Add(2 * proofTime), false},
		"another process":   {key, *grant, "other", now, false},
		"another token":     {key, wsauth.Grant{Principal: "p", Token: "u"}, "ref", now, false},
		"another principal": {key, wsauth.Grant{Principal: "pt"}, "ref", now, false},
		"another server":    {newSecret(), *grant, "ref", now, false},
	} {
		if got := tt.key.proves(proof, &tt.grant, tt.ref, tt.at); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}
