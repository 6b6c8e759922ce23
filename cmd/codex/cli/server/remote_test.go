package server

import (
	"errors"
	"log/slog"
	"net/http"
	"testing"

	"codex.internal/pkg/account/registry"
	"codex.internal/pkg/account/signin"
)

// TestRefusedCredentials: the registrar reads refused credentials again, and uses them if they have
// changed.
func TestRefusedCredentials(t *testing.T) {
	refused := &registry.StatusError{Status: http.StatusUnauthorized, Message: "no"}
	for _, tt := range []struct {
		name       string
		registered bool
		now        string // the key at that time
		err        error
		asked      int
	}{
		{"others", true, "second", refused, 2},
		{"the same", true, "first", refused, 1},
		{"none", true, "", refused, 1},
		{"never good", false, "second", refused, 1},
		{"another refusal", true, "second", &registry.StatusError{Status: http.StatusForbidden}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			key := "first"
			store, err := signin.OpenStore("", t.TempDir(), func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			log := slog.New(slog.DiscardHandler)
			r := &registrar{url: "http://127.0.0.1:1", log: log, registered: tt.registered, credentials: signin.Resolver{
				Store: store, Log: log,
				Getenv: func(name string) string {
					if name == "CODEX_API_KEY" {
						return key
					}
					return ""
				},
			}}
			if r.credential, err = r.resolve(t.Context()); err != nil {
				t.Fatal(err)
			}
			key = tt.now
			asked := 0
			err = r.ask(t.Context(), func() error {
				asked++
				header := make(http.Header)
				if err := r.Authorize(t.Context(), header); err != nil {
					return err
				}
				if header.Get("Authorization") == "Bearer second" && asked == 2 {
					return nil
				}
				return tt.err
			})
			if asked != tt.asked || (err == nil) != (asked == 2) || err != nil && !errors.Is(err, tt.err) {
				t.Errorf("asked %d times, %v", asked, err)
			}
		})
	}
}
