package signin

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
)

// printed returns a value in all forms in which it may get into a log: with all verbs, alone and
// inside of other values, and through the handlers of slog.
func printed(v any) string {
	var out strings.Builder
	for _, v := range []any{v, &v, struct{ V any }{v}, []any{v}, map[string]any{"v": v}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "v", v)
		text, err := json.Marshal(v)
		fmt.Fprintf(&out, "%s %v\n", text, err)
	}
	return out.String()
}

// TestNothingPrintsSecrets prints every type that contains a secret.
func TestNothingPrintsSecrets(t *testing.T) {
	const text = "sk-secret"
	const secret = Secret(text)
	spellings := []string{text, hex.EncodeToString([]byte(text)), strings.ToUpper(hex.EncodeToString([]byte(text))),
		base64.StdEncoding.EncodeToString([]byte(text)), strings.Trim(fmt.Sprint([]byte(text)), "[]")}
	s := newIdentityService(t)
	tokens := Tokens{IDToken: secret, AccessToken: secret, RefreshToken: secret}
	auth := NewChatGPT(tokens, secret, noon)
	chat := newChatGPT(s.authority(nil), &memoryStore{auth: auth}, slog.New(slog.DiscardHandler), auth)
	chat.refused, chat.refusedErr = secret, errors.New("no")
	record := agentRecord{PrivateKey: secret}
	g := grant{code: secret, verifier: secret}
	back := newCallback(t.Context(), s.login(nil, &memoryStore{auth: auth}), "http://localhost")
	back.state, back.grant = secret, g
	for _, v := range []any{
		secret, tokens, &tokens, auth, *auth, NewAPIKey(secret), NewPersonalAccessToken(secret), NewAgentIdentity(secret),
		&apiKey{key: secret}, apiKey{key: secret}, &accessToken{token: secret}, registrationBearer{token: secret}, chat, record, &record,
		&agent{record: record, key: []byte(text)}, agent{record: record, key: []byte(text)},
		g, &g, back, request{bearer: secret, body: []byte(text)}, answer{status: 200, body: []byte(text)}, deviceCode{id: text, user: text}, field{name: "token", value: text},
		s.resolver(environment{"CODEX_API_KEY": text}, &memoryStore{auth: auth}, io.Discard), s.login(nil, &memoryStore{auth: auth}),
	} {
		got := printed(v)
		for _, spelling := range spellings {
			if strings.Contains(got, spelling) {
				t.Errorf("%T prints %q in\n%s", v, spelling, got)
			}
		}
	}
	// The document is stored as JSON, which must not be used for logs.
	if got := fmt.Sprintf("%v %+v %#v %s", auth.doc, *auth.doc, auth.doc, auth.doc); strings.Contains(got, text) || strings.Contains(got, spellings[4]) {
		t.Errorf("the document prints as %s", got)
	}
}
