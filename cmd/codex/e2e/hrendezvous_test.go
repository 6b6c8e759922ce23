//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"codex.internal/pkg/relay/noiseik"
	"codex.internal/pkg/relay/relayframe"
	"github.com/gorilla/websocket"
)

// meeting is a running rendezvous service.
type meeting struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	tokens string // file
	tls    *tls.Config
	said   bytes.Buffer // on stderr; to be read when it has ended
}

// rendezvous starts a service on a free port.
func rendezvous(t *testing.T, tokens string, args ...string) *meeting {
	t.Helper()
	m := &meeting{t: t, tokens: tokens}
	m.cmd = exec.Command(codex, append([]string{"rendezvous", "--listen", "127.0.0.1:0", "--tokens", tokens}, args...)...)
	m.cmd.Stderr = io.MultiWriter(shownOnFailure(t), &m.said)
	out, err := m.cmd.StdoutPipe()
	must(t, err)
	must(t, m.cmd.Start())
	t.Cleanup(func() {
		_ = m.cmd.Process.Kill()
		_ = m.cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "http") {
		t.Fatalf("first line %q: %v", line, err)
	}
	m.url = strings.TrimSpace(line)
	return m
}

// end asks the service to end.
func (m *meeting) end() {
	m.t.Helper()
	must(m.t, m.cmd.Process.Signal(syscall.SIGTERM))
	if err := m.cmd.Wait(); err != nil {
		m.t.Errorf("after SIGTERM: %v", err)
	}
}

// token makes a token.
func (m *meeting) token(args ...string) string {
	m.t.Helper()
	out, errs, code := run(m.t, "", append([]string{"rendezvous", "token", "create", "--tokens", m.tokens}, args...)...)
	if code != 0 || !strings.HasPrefix(out, "cxr_") || strings.Count(out, "\n") != 1 {
		m.t.Fatalf("%d %q %q", code, out, errs)
	}
	return strings.TrimSpace(out)
}

// call makes a call of the API, and returns the status and the members of the
// answer.
func (m *meeting) call(token, path string, body any) (int, map[string]any) {
	m.t.Helper()
	text, err := json.Marshal(body)
	must(m.t, err)
	req, err := http.NewRequest(http.MethodPost, m.url+"/cloud/environment/"+path, bytes.NewReader(text))
	must(m.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: m.tls, DisableKeepAlives: true}, Timeout: patience}
	res, err := client.Do(req)
	must(m.t, err)
	defer res.Body.Close()
	var members map[string]any
	must(m.t, json.NewDecoder(res.Body).Decode(&members))
	return res.StatusCode, members
}

// dial dials the URL that a call has returned.
func (m *meeting) dial(answer map[string]any) *websocket.Conn {
	m.t.Helper()
	dialer := websocket.Dialer{TLSClientConfig: m.tls, HandshakeTimeout: patience}
	ws, _, err := dialer.Dial(answer["url"].(string), nil)
	if err != nil {
		m.t.Fatalf("dial: %v", err)
	}
	m.t.Cleanup(func() { _ = ws.Close() })
	_ = ws.SetReadDeadline(time.Now().Add(patience))
	return ws
}

// ready returns the status of a service's /readyz.
func (m *meeting) ready() int {
	m.t.Helper()
	res, err := http.Get(m.url + "/readyz")
	must(m.t, err)
	must(m.t, res.Body.Close())
	return res.StatusCode
}

// register registers an environment and returns the answer.
func (m *meeting) register(token, id string) map[string]any {
	m.t.Helper()
	status, registered := m.call(token, url.PathEscape(id)+"/register", map[string]any{
		"security_profile": "noise_hybrid_ik_v1", "executor_public_key": publicKey(m.t),
	})
	if status != http.StatusOK {
		m.t.Fatalf("%q: %d %v", id, status, registered)
	}
	return registered
}

// stream opens a stream to an executor's socket, which gets so many records of
// 60 KiB and answers with as many of 30 KiB.
func (m *meeting) stream(token, id string, executor *websocket.Conn, records uint32) {
	m.t.Helper()
	status, connected := m.call(token, url.PathEscape(id)+"/connect", map[string]any{"harness_public_key": publicKey(m.t)})
	if status != http.StatusOK {
		m.t.Fatalf("%q: %d %v", id, status, connected)
	}
	h := m.dial(connected)
	pass(m.t, h, executor, relayframe.Frame{StreamID: "s", Kind: relayframe.Handshake, Payload: []byte("1")})
	for seq := range records {
		pass(m.t, h, executor, relayframe.Frame{StreamID: "s", Kind: relayframe.Data, Seq: seq, Payload: make([]byte, 60<<10)})
		pass(m.t, executor, h, relayframe.Frame{StreamID: "s", Kind: relayframe.Data, Seq: seq, Payload: make([]byte, 30<<10)})
	}
}

// meetingStatus is what /status tells of one environment.
type meetingStatus struct {
	ID           string
	Registration string `json:"executor_registration_id"`
	Connected    bool
	Harnesses    int
	Up, Down     struct{ Frames int }
}

// status returns what the service tells of the only environment.
func (m *meeting) status(token string) meetingStatus {
	m.t.Helper()
	req, err := http.NewRequest(http.MethodGet, m.url+"/status", nil)
	must(m.t, err)
	req.SetBasicAuth("anybody", token)
	req.Header.Set("Accept", "application/json")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	res, err := client.Do(req)
	must(m.t, err)
	defer res.Body.Close()
	var page struct{ Environments []meetingStatus }
	must(m.t, json.NewDecoder(res.Body).Decode(&page))
	if len(page.Environments) == 0 {
		return meetingStatus{}
	}
	return page.Environments[0]
}

// await polls the status until done likes it.
func (m *meeting) await(token, what string, done func(meetingStatus) bool) meetingStatus {
	m.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		s := m.status(token)
		if done(s) {
			return s
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("%s: %+v", what, s)
		}
	}
}

// pass sends a frame from one socket and reads it at the other.
func pass(t *testing.T, from, to *websocket.Conn, f relayframe.Frame) {
	t.Helper()
	sent, err := f.Append(nil)
	must(t, err)
	must(t, from.WriteMessage(websocket.BinaryMessage, sent))
	if kind, got, err := to.ReadMessage(); err != nil || kind != websocket.BinaryMessage || !bytes.Equal(got, sent) {
		t.Fatalf("%v: %d bytes, %v", f.Kind, len(got), err)
	}
}

func publicKey(t *testing.T) noiseik.PublicKey {
	t.Helper()
	id, err := noiseik.GenerateIdentity()
	must(t, err)
	return id.PublicKey()
}
