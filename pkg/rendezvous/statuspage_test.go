package rendezvous

import (
	"codex.internal/pkg/testutil"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
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

// TestStatusSeen: the page says from where an executor is connected, and until when it was.
func TestStatusSeen(t *testing.T) {
	s := start(t, Options{})
	status := func() (list struct{ Environments []environmentStatus }) {
		t.Helper()
		w := s.get("/status", "Authorization", "Bearer "+s.token, "Accept", "application/json")
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list.Environments) != 1 {
			t.Fatalf("%v %s", err, w.Body)
		}
		return list
	}
	s.register("e")
	if e := status().Environments[0]; e.Since != nil || seen(&e) != "not by this node" {
		t.Errorf("before it has come: %+v", e)
	}
	x := s.executor("e")
	testutil.Eventually(t.Context(), t, "the connection", func() (string, bool) {
		e := status().Environments[0]
		return seen(&e), e.Since != nil && e.LastSeen == nil && strings.HasPrefix(e.Address, "127.0.0.1:") && strings.HasPrefix(seen(&e), "since ")
	})
	_ = x.ws.Close()
	testutil.Eventually(t.Context(), t, "the end of the connection", func() (string, bool) {
		e := status().Environments[0]
		return seen(&e), e.LastSeen != nil && strings.HasPrefix(seen(&e), "until ")
	})
}
