package execserver

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"codex.internal/pkg/execserver/wsauth"
	"github.com/gorilla/websocket"
)

// TestATokenSendsLargeMessages writes files in messages of nearly the largest size. A message's
// buffer grows in steps. In an earlier version, a connection left half of its principal's share
// to others. It could then not take the last step, although no other connection wanted memory.
func TestATokenSendsLargeMessages(t *testing.T) {
	for name, tt := range map[string]struct{ limit, size int }{"of the usual limit": {0, 47 << 20}, "of a larger limit": {100 << 20, 70 << 20}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tokens := wsauth.OpenTokens(filepath.Join(dir, "tokens.json"))
			auth, err := wsauth.New(wsauth.Config{Mode: wsauth.CapabilityToken, TokensFile: tokens.Path()})
			if err != nil {
				t.Fatal(err)
			}
			_, url := newTestServer(t, Options{Auth: auth, MaxMessage: tt.limit})
			secret, _, err := tokens.Create(t.Context(), wsauth.TokenSpec{Name: "t", Role: wsauth.RoleRun})
			if err != nil {
				t.Fatal(err)
			}
			ws, _, err := websocket.DefaultDialer.Dial(url, http.Header{"Authorization": {"Bearer " + secret}})
			if err != nil {
				t.Fatal(err)
			}
			defer ws.Close()
			p := &peer{t: t, ws: ws}
			p.initialize("")
			p.call("fs/writeFile", object{"path": uri(dir, "f"), "dataBase64": make([]byte, tt.size)}, nil)
			if info, err := os.Stat(filepath.Join(dir, "f")); err != nil || info.Size() != int64(tt.size) {
				t.Errorf("got %v, error %v; want a file of %d bytes", info, err, tt.size)
			}
		})
	}
}
