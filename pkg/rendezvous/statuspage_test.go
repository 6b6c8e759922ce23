package rendezvous

import (
	"strings"
	"testing"
)

func TestByteSize(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB",
		// One byte before it would read 1024.0, and that byte.
		1048524: "1023.9 KiB", 1048525: "1.0 MiB", 1 << 20: "1.0 MiB", 5 << 30: "5.0 GiB", 1 << 40: "1.0 TiB", 1<<64 - 1: "16777216.0 TiB",
	} {
		if got := byteSize(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

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
		if !ok || !strings.Contains(policy, directive+sourceHash(content)) {
			t.Errorf("the policy %q does not allow the page's %s", policy, element)
		}
	}
	if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("headers %v", w.Header())
	}
}
