package harness

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/testutil"
	"github.com/gorilla/websocket"
)

// Meeting is a running rendezvous service.
type Meeting struct {
	t      *testing.T
	Cmd    *exec.Cmd
	URL    string
	Tokens string // path of the token file
	Tls    *tls.Config
	Said   bytes.Buffer // stderr of the service; read it only after its end
}

// Rendezvous starts a rendezvous service on a free port.
func Rendezvous(t *testing.T, tokens string, args ...string) *Meeting {
	t.Helper()
	m := &Meeting{t: t, Tokens: tokens}
	m.Cmd = exec.Command(Codex, append([]string{"rendezvous", "--listen", "127.0.0.1:0", "--tokens", tokens}, args...)...)
	m.Cmd.Stderr = io.MultiWriter(ShownOnFailure(t), &m.Said)
	out, err := m.Cmd.StdoutPipe()
	Must(t, err)
	Must(t, m.Cmd.Start())
	t.Cleanup(func() {
		_ = m.Cmd.Process.Kill()
		_ = m.Cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "http") {
		t.Fatalf("first line %q: %v", line, err)
	}
	m.URL = strings.TrimSpace(line)
	return m
}

// End asks the service to end.
func (m *Meeting) End() {
	m.t.Helper()
	Must(m.t, m.Cmd.Process.Signal(syscall.SIGTERM))
	if err := m.Cmd.Wait(); err != nil {
		m.t.Errorf("after SIGTERM: %v", err)
	}
}

// Token creates a token.
func (m *Meeting) Token(args ...string) string {
	m.t.Helper()
	out, errs, code := Run(m.t, "", append([]string{"rendezvous", "token", "create", "--tokens", m.Tokens}, args...)...)
	if code != 0 || !strings.HasPrefix(out, "cxr_") || strings.Count(out, "\n") != 1 {
		m.t.Fatalf("got exit code %d, stdout %q, stderr %q; want exit code 0, stdout beginning with \"cxr_\", strings.Count(out, \"\\n\") 1", code, out, errs)
	}
	return strings.TrimSpace(out)
}

// Call makes a call of the API. It returns the status and the members of the response.
func (m *Meeting) Call(token, path string, body any) (int, map[string]any) {
	m.t.Helper()
	text, err := json.Marshal(body)
	Must(m.t, err)
	req, err := http.NewRequest(http.MethodPost, m.URL+"/cloud/environment/"+path, bytes.NewReader(text))
	Must(m.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: m.Tls, DisableKeepAlives: true}, Timeout: Patience}
	res, err := client.Do(req)
	Must(m.t, err)
	defer res.Body.Close()
	var members map[string]any
	Must(m.t, json.NewDecoder(res.Body).Decode(&members))
	return res.StatusCode, members
}

// Dial dials the URL in the response of a call.
func (m *Meeting) Dial(answer map[string]any) *websocket.Conn {
	m.t.Helper()
	dialer := websocket.Dialer{TLSClientConfig: m.Tls, HandshakeTimeout: Patience}
	ws, _, err := dialer.Dial(answer["url"].(string), nil)
	if err != nil {
		m.t.Fatalf("dial: %v", err)
	}
	m.t.Cleanup(func() { _ = ws.Close() })
	_ = ws.SetReadDeadline(time.Now().Add(Patience))
	return ws
}

// Ready returns the status of a service's /readyz.
func (m *Meeting) Ready() int {
	m.t.Helper()
	res, err := http.Get(m.URL + "/readyz")
	Must(m.t, err)
	Must(m.t, res.Body.Close())
	return res.StatusCode
}

// Register registers an environment and returns the response.
func (m *Meeting) Register(token, id string) map[string]any {
	m.t.Helper()
	status, registered := m.Call(token, url.PathEscape(id)+"/register", map[string]any{
		"security_profile": "noise_hybrid_ik_v1", "executor_public_key": PublicKey(m.t),
	})
	if status != http.StatusOK {
		m.t.Fatalf("%q: got status %d, registered %v; want status %d", id, status, registered, http.StatusOK)
	}
	return registered
}

// Stream opens a stream to an executor's socket. It sends the given number of
// records of 60 KiB, and the executor answers with as many of 30 KiB.
func (m *Meeting) Stream(token, id string, executor *websocket.Conn, records uint32) {
	m.t.Helper()
	status, connected := m.Call(token, url.PathEscape(id)+"/connect", map[string]any{"harness_public_key": PublicKey(m.t)})
	if status != http.StatusOK {
		m.t.Fatalf("%q: got status %d, connected %v; want status %d", id, status, connected, http.StatusOK)
	}
	h := m.Dial(connected)
	Pass(m.t, h, executor, frame.Frame{StreamID: "s", Kind: frame.Handshake, Payload: []byte("1")})
	for seq := range records {
		Pass(m.t, h, executor, frame.Frame{StreamID: "s", Kind: frame.Data, Seq: seq, Payload: make([]byte, 60<<10)})
		Pass(m.t, executor, h, frame.Frame{StreamID: "s", Kind: frame.Data, Seq: seq, Payload: make([]byte, 30<<10)})
	}
}

// MeetingStatus is the part of /status for one environment.
type MeetingStatus struct {
	ID           string
	Registration string `json:"executor_registration_id"`
	Connected    bool
	Harnesses    int
	Up, Down     struct{ Frames int }
}

// status returns the service's status of the only environment.
func (m *Meeting) status(token string) MeetingStatus {
	m.t.Helper()
	req, err := http.NewRequest(http.MethodGet, m.URL+"/status", nil)
	Must(m.t, err)
	req.SetBasicAuth("anybody", token)
	req.Header.Set("Accept", "application/json")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: Patience}
	res, err := client.Do(req)
	Must(m.t, err)
	defer res.Body.Close()
	var page struct{ Environments []MeetingStatus }
	Must(m.t, json.NewDecoder(res.Body).Decode(&page))
	if len(page.Environments) == 0 {
		return MeetingStatus{}
	}
	return page.Environments[0]
}

// Await polls the status until done returns true.
func (m *Meeting) Await(token, what string, done func(MeetingStatus) bool) MeetingStatus {
	m.t.Helper()
	var s MeetingStatus
	testutil.Eventually(m.t.Context(), m.t, what, func() (string, bool) {
		s = m.status(token)
		return fmt.Sprintf("%+v", s), done(s)
	})
	return s
}

// Pass sends a frame on one socket and reads it from the other.
func Pass(t *testing.T, from, to *websocket.Conn, f frame.Frame) {
	t.Helper()
	sent, err := f.Append(nil)
	Must(t, err)
	Must(t, from.WriteMessage(websocket.BinaryMessage, sent))
	if kind, got, err := to.ReadMessage(); err != nil || kind != websocket.BinaryMessage || !bytes.Equal(got, sent) {
		t.Fatalf("%v: %d bytes, %v", f.Kind, len(got), err)
	}
}

func PublicKey(t *testing.T) noise.PublicKey {
	t.Helper()
	id, err := noise.GenerateIdentity()
	Must(t, err)
	return id.PublicKey()
}
