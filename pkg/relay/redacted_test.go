package relay

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// TestNothingPrintsCredentials prints every type that has one.
func TestNothingPrintsCredentials(t *testing.T) {
	r := Registration{URL: "wss://relay.test/x?secret#secret", EnvironmentID: "env-1", RegistrationID: "reg-1"}
	b := Bundle{Registration: r, ExecutorKey: identity().PublicKey(), Authorization: "secret"}
	e := NewExecutor(ExecutorOptions{Identity: identity()})
	e.registration = r
	const shown = "environment env-1, registration reg-1 at wss://relay.test/x"
	for _, tt := range []struct {
		v    any
		want string
	}{{r, shown}, {&r, shown}, {b, shown}, {&b, shown}, {&Conn{bundle: b}, shown}, {newVisit(t.Context(), e, nil, r), shown}, {e, "executor"}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if got := fmt.Sprintf(verb, tt.v); got != tt.want {
				t.Errorf("%T prints with %s as %s", tt.v, verb, got)
			}
		}
		var out strings.Builder
		for _, v := range []any{tt.v, []any{tt.v}, struct{ V any }{tt.v}} {
			slog.New(slog.NewTextHandler(&out, nil)).Info("m", "v", v)
			slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "v", v)
			text, err := json.Marshal(v)
			fmt.Fprintf(&out, "%#v %s %v", v, text, err)
		}
		if strings.Contains(out.String(), "secret") {
			t.Errorf("%T is logged as %s", tt.v, out.String())
		}
	}
}
