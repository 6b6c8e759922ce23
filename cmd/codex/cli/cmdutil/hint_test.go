package cmdutil

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"codex.internal/pkg/account/registry"
)

func TestRegistryHint(t *testing.T) {
	answered := func(status int, code, message string) error {
		return fmt.Errorf("environment: %w", &registry.StatusError{Status: status, Code: code, Message: message})
	}
	asked := func(err error) error { return &registry.TransportError{URL: "https://r", Err: err} }
	for _, tt := range []struct {
		name string
		err  error
		want string // expected in the hint; empty: no hint
	}{
		{"unknown token", answered(http.StatusUnauthorized, "invalid_token", "no"), "set TOKEN to a token of that service"},
		{"token for others", answered(http.StatusForbidden, "environment_not_allowed", "no"), "token create --role harness --environment ID"},
		{"offline", answered(http.StatusServiceUnavailable, "environment_offline", "no"), "codex exec-server --remote URL --environment-id ID"},
		{"never there", answered(http.StatusServiceUnavailable, "environment_not_registered", "no"), "codex exec-server --remote URL --environment-id ID"},
		{"a path", answered(http.StatusNotFound, "not_found", "no"), "is that the URL of a codex rendezvous"},
		{"too much to do", answered(http.StatusServiceUnavailable, "state_unavailable", "no"), ""},
		{"nobody there", asked(ErrConnectionRefused), "is codex rendezvous running there?"},
		{"no such host", asked(&net.DNSError{Name: "r"}), CheckName},
		{"another host's certificate", asked(&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: new(x509.Certificate), Host: "r"}}), otherName},
		{"an old certificate", asked(&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}), expired},
		{"a certificate of nobody", asked(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), untrusted},
		{"no TLS there", asked(http.ErrSchemeMismatch), "try its URL with http://"},
		{"TLS there", answered(http.StatusBadRequest, "", "Client sent an HTTP request to an HTTPS server."), "with https://"},
		{"a bad request", answered(http.StatusBadRequest, "invalid_environment_id", "no"), ""},
		{"another service", answered(http.StatusNotImplemented, "", "<html>"), "is that the URL of a codex rendezvous"},
		{"a redirection", answered(http.StatusMovedPermanently, "", ""), "is that the URL of a codex rendezvous"},
		{"a web page", &registry.DecodeError{Err: errors.New("invalid character '<'")}, wrongPlace},
		{"another service that fails", answered(http.StatusBadGateway, "", ""), ""},
		{"a lost connection", asked(net.ErrClosed), ""},
		{"another server's", ErrConnectionRefused, ""},
		{"none", nil, ""},
	} {
		got := RegistryHint(tt.err, "harness", "TOKEN")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestAdviceIsBelowTheCauses(t *testing.T) {
	plain := errors.New("a")
	if err := WithAdvice(plain, ""); err != plain {
		t.Errorf("no advice makes %#v", err)
	}
	err := fmt.Errorf("b: %w", WithAdvice(&registry.TransportError{URL: "https://r", Err: net.ErrClosed}, "do this"))
	var out bytes.Buffer
	fmt.Fprint(&out, CausedBy(err), AdviceOn(err))
	want := "\nCaused by:\n    " + net.ErrClosed.Error() + "\nhint: do this\n"
	if out.String() != want || strings.Contains(err.Error(), "do this") {
		t.Errorf("%q below %q, want %q", out.String(), err, want)
	}
}
