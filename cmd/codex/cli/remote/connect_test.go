package remote

import (
	"errors"
	"net/http"
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
		{execenv.WebSocket, refused, "; is the server running? Start one with codex exec-server --listen ws://127.0.0.1:8765"},
		{execenv.WebSocket, unauthorized, "; set " + tokenVariable + " to the server's token"},
		{execenv.Noise, refused, ""},
		{execenv.Noise, unauthorized, ""},
	} {
		if err := unreachable(tt.err, tt.kind); err.Error() != tt.err.Error()+tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s, %v: got error %v; want tt.err.Error()+tt.want, %v", tt.kind, tt.err, err, tt.err)
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
