package natsbus

import (
	"fmt"
	"strings"
	"testing"
)

func TestNothingPrintsSecrets(t *testing.T) {
	o := Options{Servers: "nats://user:secret@host"}
	s := &State{}
	copy(s.keys.URLs[:], "secretsecretsecretsecretsecretsecret")
	for _, v := range []any{o, &o, s, &Node{State: s}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			text := fmt.Sprintf(verb, v)
			if containsSecret(text) || strings.Contains(text, "736563726574") {
				t.Errorf("%T is printed as %s", v, text)
			}
		}
	}
}
