package rendezvous

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
)

// TestStatusPolicy: what the policy allows is what is on the page.
func TestStatusPolicy(t *testing.T) {
	s := start(t, Options{})
	w := s.get("/status", "Authorization", "Bearer "+s.token)
	policy, text := w.Header().Get("Content-Security-Policy"), w.Body.String()
	if strings.Contains(policy, "unsafe") || !strings.HasPrefix(policy, "default-src 'none';") {
		t.Errorf("policy %q", policy)
	}
	for element, directive := range map[string]string{"style": "style-src ", "script": "script-src "} {
		_, rest, _ := strings.Cut(text, "<"+element+">")
		content, _, ok := strings.Cut(rest, "</"+element+">")
		if !ok || !strings.Contains(policy, directive+hashOf(content)) {
			t.Errorf("the policy %q does not allow the page's %s", policy, element)
		}
	}
	if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("headers %v", w.Header())
	}
}

// hashOf names an inline element in a policy.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
