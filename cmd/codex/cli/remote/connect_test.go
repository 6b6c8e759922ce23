package remote

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execenv"
)

// TestHintsAboutAServer: hints are about a server that the user has named, and not about the
// relay of a registry.
func TestHintsAboutAServer(t *testing.T) {
	refused := &execclient.DialError{URL: "ws://h", Err: cmdutil.ErrConnectionRefused}
	unauthorized := &execclient.DialError{URL: "ws://h", Status: http.StatusUnauthorized, Err: errors.New("401 Unauthorized")}
	for _, tt := range []struct {
		kind execenv.Kind
		err  error
		want string // expected at the end
	}{
		{execenv.WebSocket, refused, "; is the server running? Start one with codex exec-server --listen ws://127.0.0.1:9"},
		{execenv.WebSocket, unauthorized, "; set " + tokenVariable + " to the server's token"},
		{execenv.Noise, refused, ""},
		{execenv.Noise, unauthorized, ""},
	} {
		if err := unreachable(tt.err, execenv.Spec{Kind: tt.kind, URL: "ws://127.0.0.1:9"}); err.Error() != tt.err.Error()+tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s, %v: got error %v; want tt.err.Error()+tt.want, %v", tt.kind, tt.err, err, tt.err)
		}
	}
}

// TestHintsAboutTLS: hints name what has an effect for the URL that the user has chosen.
func TestHintsAboutTLS(t *testing.T) {
	untrusted := &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	for _, tt := range []struct {
		url, source string
		err         error
		want        string
	}{
		{"wss://h", "--url", untrusted, "set --ca to"},
		{"wss://h", "/x/environments.toml", untrusted, "set ca in environments.toml to"},
		{"wss://h", "--url", tls.RecordHeaderError{Msg: "x"}, "begins with ws://"},
		{"ws://h", "--url", errors.New("400 Bad Request: Client sent an HTTP request to an HTTPS server."), "begins with wss://"},
		{"wss://h", "--url", errors.New("remote error: tls: certificate required"), "--client-cert and --client-key"},
	} {
		err := unreachable(tt.err, execenv.Spec{Kind: execenv.WebSocket, URL: tt.url, Source: tt.source})
		if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "CODEX_CA_CERTIFICATE") {
			t.Errorf("%s of %s: got %v; want %q in it", tt.url, tt.source, err, tt.want)
		}
	}
	for url, want := range map[string]bool{"ws://127.0.0.1:1": true, "unix:///s": true, "ws://[::1]:1": true, "ws://h:1": false, "ws://10.0.0.1:1": false, "wss://127.0.0.1:1": false} {
		if got := startHint(url); strings.HasSuffix(got, "--listen "+url) != want {
			t.Errorf("%s: the hint is %q, want one %v", url, got, want)
		}
	}
}

func TestURLsThatWereMeantOtherwise(t *testing.T) {
	const expected = "expected ws://HOST:PORT, wss://HOST:PORT or unix:///PATH"
	for url, want := range map[string]string{
		"": "", "ws://h:1": "", "wss://h": "", "unix:///x": "", "ftp://x": "",
		"http://h:1":     "--url http://h:1: " + expected + "; did you mean ws://h:1?",
		"HTTPS://h":      "--url HTTPS://h: " + expected + "; did you mean wss://h?",
		"localhost:8765": "--url localhost:8765: " + expected + "; did you mean ws://localhost:8765?",
		"http://u:p@h":   "--url: " + expected,
	} {
		got := ""
		if err := checkURL(url); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", url, got, want)
		}
	}
}
