package cli

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"codex.internal/pkg/registry"
)

func TestRegistryHint(t *testing.T) {
	answered := func(status int, code string) error {
		return fmt.Errorf("environment: %w", &registry.StatusError{Status: status, Code: code, Message: "no"})
	}
	asked := func(err error) error { return &registry.TransportError{URL: "https://r", Err: err} }
	for _, tt := range []struct {
		name string
		err  error
		want string // in the hint; empty: there is none
	}{
		{"unknown token", answered(http.StatusUnauthorized, "invalid_token"), "set TOKEN to a token of that service"},
		{"token for others", answered(http.StatusForbidden, "environment_not_allowed"), "token create --role harness --environment ID"},
		{"offline", answered(http.StatusServiceUnavailable, "environment_offline"), "codex exec-server --remote URL --environment-id ID"},
		{"never there", answered(http.StatusServiceUnavailable, "environment_not_registered"), "codex exec-server --remote URL --environment-id ID"},
		{"a path", answered(http.StatusNotFound, "not_found"), "is that the URL of a codex rendezvous"},
		{"too much to do", answered(http.StatusServiceUnavailable, "state_unavailable"), ""},
		{"nobody there", asked(errRefused), "is codex rendezvous running there?"},
		{"no such host", asked(&net.DNSError{Name: "r"}), checkName},
		{"a lost connection", asked(net.ErrClosed), ""},
		{"another server's", errRefused, ""},
		{"none", nil, ""},
	} {
		got := registryHint(tt.err, "harness", "TOKEN")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestAdviceIsBelowTheCauses(t *testing.T) {
	plain := errors.New("a")
	if err := advised(plain, ""); err != plain {
		t.Errorf("no advice makes %#v", err)
	}
	err := fmt.Errorf("b: %w", advised(&registry.TransportError{URL: "https://r", Err: net.ErrClosed}, "do this"))
	var out bytes.Buffer
	fmt.Fprint(&out, causedBy(err), adviceOn(err))
	want := "\nCaused by:\n    " + net.ErrClosed.Error() + "\ncodex: do this\n"
	if out.String() != want || strings.Contains(err.Error(), "do this") {
		t.Errorf("%q below %q, want %q", out.String(), err, want)
	}
}
