package rendezvous

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/relay/frame"
)

func TestRendezvous(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := harness.Rendezvous(t, filepath.Join(dir, "tokens.json"), "--state", filepath.Join(dir, "state.json"))
	// The running service reads new tokens.
	executor := m.Token("--role", "executor", "--environment", "ci-*", "--name", "build")
	client := m.Token("--role", "harness", "--environment", "ci-1", "--expires", "1h")
	executorKey, harnessKey := harness.PublicKey(t), harness.PublicKey(t)
	register := map[string]any{"security_profile": "noise_hybrid_ik_v1", "executor_public_key": executorKey}
	connect := map[string]any{"harness_public_key": harnessKey}

	if status, a := m.Call(client, "ci-1/register", register); status != 403 {
		t.Errorf("a harness registers: %d %v", status, a)
	}
	status, registered := m.Call(executor, "ci-1/register", register)
	if status != 200 {
		t.Fatalf("got status %d, registered %v; want status 200", status, registered)
	}
	x := m.Dial(registered)
	status, connected := m.Call(client, "ci-1/connect", connect)
	if status != 200 || connected["executor_registration_id"] != registered["executor_registration_id"] {
		t.Fatalf(`got status %d, connected %v; want status 200, connected["executor_registration_id"] registered["executor_registration_id"]`, status, connected)
	}
	h := m.Dial(connected)
	harness.Pass(t, h, x, frame.Frame{StreamID: "s", Kind: frame.Resume})
	harness.Pass(t, h, x, frame.Frame{StreamID: "s", Kind: frame.Handshake, Payload: []byte("message 1")})
	status, validated := m.Call(executor, "ci-1/validate", map[string]any{
		"executor_registration_id": registered["executor_registration_id"], "harness_public_key": harnessKey,
		"harness_key_authorization": connected["harness_key_authorization"],
	})
	if status != 200 || validated["valid"] != true {
		t.Errorf(`got status %d, validated %v; want status 200, validated["valid"] true`, status, validated)
	}
	harness.Pass(t, x, h, frame.Frame{StreamID: "s", Kind: frame.Handshake, Payload: []byte("message 2")})
	for seq := range uint32(20) {
		harness.Pass(t, h, x, frame.Frame{StreamID: "s", Kind: frame.Data, Seq: seq, Payload: make([]byte, 60<<10)})
		harness.Pass(t, x, h, frame.Frame{StreamID: "s", Kind: frame.Data, Seq: seq, Payload: make([]byte, 60<<10)})
	}
	res, err := http.Get(m.URL + "/metrics")
	harness.Must(t, err)
	text, _ := io.ReadAll(res.Body)
	harness.Must(t, res.Body.Close())
	if !strings.Contains(string(text), "rendezvous_streams 1\n") {
		t.Errorf("got %s, want a text with %q", text, "rendezvous_streams 1\n")
	}

	// The service ends normally, and the executor reconnects with its old URL.
	var closed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, closed = x.ReadMessage()
		_ = x.Close()
		_ = h.Close()
	}()
	m.End()
	<-done
	if !websocket.IsCloseError(closed, websocket.CloseGoingAway, websocket.CloseServiceRestart) {
		t.Errorf("at the end: %v", closed)
	}
	again := harness.Rendezvous(t, m.Tokens, "--state", filepath.Join(dir, "state.json"))
	registered["url"] = strings.Replace(registered["url"].(string), strings.TrimPrefix(m.URL, "http://"), strings.TrimPrefix(again.URL, "http://"), 1)
	again.Dial(registered)
	if status, a := again.Call(client, "ci-1/connect", connect); status != 200 || a["executor_registration_id"] != registered["executor_registration_id"] {
		t.Errorf("after a restart: %d %v", status, a)
	}

	out, _, code := harness.Run(t, "", "rendezvous", "token", "list", "--tokens", m.Tokens, "--json")
	var list []struct{ ID, Name, Role string }
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || len(list) != 2 || strings.Contains(out, "sha256") {
		t.Fatalf(`got exit code %d, stdout %s, error %v; want no error, exit code 0, len(list) 2, stdout without "sha256"`, code, out, err)
	}
	for _, entry := range list {
		if _, errs, code := harness.Run(t, "", "rendezvous", "token", "revoke", "--tokens", m.Tokens, entry.ID); code != 0 {
			t.Errorf("got exit code %d, stderr %s; want exit code 0", code, errs)
		}
	}
	if status, a := again.Call(client, "ci-1/connect", connect); status != 401 {
		t.Errorf("revoked: %d %v", status, a)
	}
}

func TestRendezvousWithTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key, pool := certificate(t, dir)
	m := harness.Rendezvous(t, filepath.Join(dir, "tokens.json"), "--tls-cert", cert, "--tls-key", key)
	m.Tls = &tls.Config{RootCAs: pool}
	token := m.Token("--role", "both", "--environment", "*")
	status, registered := m.Call(token, "env/register", map[string]any{"security_profile": "noise_hybrid_ik_v1", "executor_public_key": harness.PublicKey(t)})
	if url := fmt.Sprint(registered["url"]); status != 200 || !strings.HasPrefix(url, "wss://") {
		t.Fatalf(`got status %d, registered %v; want status 200, url beginning with "wss://"`, status, registered)
	}
	x := m.Dial(registered)
	_, connected := m.Call(token, "env/connect", map[string]any{"harness_public_key": harness.PublicKey(t)})
	harness.Pass(t, m.Dial(connected), x, frame.Frame{StreamID: "s", Kind: frame.Handshake, Payload: []byte("1")})
}

// certificate makes a certificate for 127.0.0.1.
func certificate(t *testing.T, dir string) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	harness.Must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	harness.Must(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	harness.Must(t, err)
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	harness.Must(t, os.WriteFile(cert, certPEM, 0o600))
	harness.Must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return cert, key, pool
}

func TestRendezvousCommandLine(t *testing.T) {
	t.Parallel() // the test waits for locks of other processes
	dir := t.TempDir()
	tokens, state := filepath.Join(dir, "tokens.json"), filepath.Join(dir, "state.json")
	taken := harness.Rendezvous(t, filepath.Join(dir, "others.json"), "--state", state)
	for _, tt := range []struct {
		args []string
		code int
		want string // expected in stdout or stderr
	}{
		{[]string{"--help"}, 0, "--public-url"},
		{[]string{"stray"}, 2, "stray"},
		{[]string{"--listen", "0.0.0.0:0"}, 1, "--tls-cert"},
		{[]string{"--listen", ":0"}, 1, "--tls-cert"},
		{[]string{"--listen", "nowhere"}, 2, "--listen nowhere: missing port in address; expected HOST:PORT"},
		{[]string{"--listen", "127.0.0.1:0", "--tls-cert", "x"}, 2, "--tls-key"},
		{[]string{"--listen", "127.0.0.1:0", "--tls-cert", "x", "--tls-key", "y"}, 1, "--tls-cert x"},
		{[]string{"--listen", "127.0.0.1:0", "--public-url", "ftp://h"}, 2, "--public-url \"ftp://h\": expected"},
		{[]string{"--log-level", "loud"}, 2, "--log-level"},
		{[]string{"token", "list"}, 0, "No tokens in " + tokens},
		{[]string{"token", "make"}, 2, "make"},
		{[]string{"token", "create"}, 2, "--role"},
		{[]string{"token", "create", "--role", "both"}, 2, "--environment"},
		{[]string{"token", "create", "--role", "root", "--environment", "*"}, 2, "--role \"root\": there are"},
		{[]string{"token", "create", "--role", "both", "--environment", "["}, 2, "--environment \"[\" is neither an id nor a pattern"},
		{[]string{"token", "create", "--role", "both", "--environment", "*", "--expires", "-1h"}, 2, "for flag -expires: must be at least 0s"},
		{[]string{"token", "revoke"}, 2, "id"},
		{[]string{"token", "revoke", "0123456789ab"}, 1, "the token does not exist"},
		{[]string{"token", "revoke", "cxr_0123456789ab_secret"}, 2, "codex rendezvous token revoke 0123456789ab\n"},
		{[]string{"--listen", strings.TrimPrefix(taken.URL, "http://")}, 1, "something listens there already"},
		{[]string{"--listen", "127.0.0.1:0", "--state", state}, 1, "another codex rendezvous uses this file"},
		{[]string{"token", "create", "--role", "both", "--environment", "a,b"}, 0, "WARNING: \"a,b\" is one environment"},
	} {
		args := append([]string{"rendezvous", "--tokens", tokens}, tt.args...)
		if out, errs, code := harness.Run(t, "", args...); code != tt.code || !strings.Contains(out+errs, tt.want) || strings.Contains(out+errs, "_secret") {
			t.Errorf("codex %q: exit code %d, %q, %q", args, code, out, errs)
		}
	}
}
