package rendezvous

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/natstest"
)

// TestRendezvousNodes: an executor connects to one node and a harness to another. Then the
// executor's node is killed.
func TestRendezvousNodes(t *testing.T) {
	t.Parallel()
	nats := natstest.Start(t)
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	node := func() *harness.Meeting { return harness.Rendezvous(t, tokens, "--nats", nats.URL()) }
	a, b := node(), node()
	token := a.Token("--role", "both", "--environment", "*")
	id, err := noise.GenerateIdentity()
	harness.Must(t, err)
	status, registration := a.Call(token, "env/register", map[string]any{"security_profile": "noise_hybrid_ik_v1", "executor_public_key": id.PublicKey()})
	if status != http.StatusOK {
		t.Fatalf("register: %v", registration)
	}
	connect := func() (int, map[string]any) {
		return b.Call(token, "env/connect", map[string]any{"harness_public_key": id.PublicKey()})
	}
	join := func() *websocket.Conn {
		t.Helper()
		status, bundle := connect()
		if status != http.StatusOK {
			t.Fatalf("connect: %v", bundle)
		}
		return b.Dial(bundle)
	}
	hello := frame.Frame{StreamID: "s", Kind: frame.Handshake, Payload: []byte("hello")}
	x, h := a.Dial(registration), join()
	harness.Pass(t, h, x, hello)
	harness.Pass(t, x, h, hello)

	// The executor reconnects with its old URL, to another node.
	killed := time.Now()
	harness.Must(t, a.Cmd.Process.Kill())
	_ = a.Cmd.Wait()
	registration["url"] = strings.Replace(registration["url"].(string), strings.TrimPrefix(a.URL, "http://"), strings.TrimPrefix(b.URL, "http://"), 1)
	x = b.Dial(registration)
	if _, _, err := h.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseServiceRestart) {
		t.Errorf("the harness is told %v", err)
	}
	harness.Pass(t, join(), x, hello)
	if took := time.Since(killed); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}

	// Without NATS, the service reports the failure within bounded time. It serves again when NATS
	// is back.
	nats.Kill()
	began := time.Now()
	status, answer := connect()
	if status != http.StatusServiceUnavailable || answer["error"].(map[string]any)["code"] != "state_unavailable" || time.Since(began) > 8*time.Second {
		t.Errorf("%d %v after %v", status, answer, time.Since(began))
	}
	if got := b.Ready(); got != http.StatusServiceUnavailable {
		t.Errorf("ready: %d", got)
	}
	nats.Restart()
	testutil.Eventually(t.Context(), t, "a node that is ready again", func() (string, bool) {
		status := b.Ready()
		return strconv.Itoa(status), status == http.StatusOK
	})
	hello.StreamID = "another" // the previous harness uses the first stream
	harness.Pass(t, join(), x, hello)
	b.End()
}

// rejecting forwards one connection to a NATS server. When reject is called, it sends an error to
// the client.
func rejecting(t *testing.T, server string) (url string, reject func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	harness.Must(t, err)
	var rejected atomic.Bool
	var forwarding sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); forwarding.Wait() })
	forwarding.Go(func() {
		client, err := l.Accept()
		if err != nil {
			return
		}
		defer client.Close()
		nats, err := net.Dial("tcp", strings.TrimPrefix(server, "nats://"))
		if err != nil {
			return
		}
		defer nats.Close()
		forwarding.Go(func() { _, _ = io.Copy(nats, client); _ = nats.Close() })
		for buffer := make([]byte, 64<<10); ; {
			n, err := nats.Read(buffer)
			if err != nil {
				return
			}
			message := buffer[:n]
			if rejected.Load() && bytes.HasSuffix(message, []byte("\r\n")) {
				message = append(message, "-ERR 'Invalid Client Protocol'\r\n"...)
			}
			if _, err := client.Write(message); err != nil {
				return
			}
		}
	})
	return "nats://" + l.Addr().String(), func() { rejected.Store(true) }
}

// If the NATS client of a node has given up, the node ends, so that its supervisor can restart it.
func TestRendezvousNodeLosesNATS(t *testing.T) {
	t.Parallel()
	url, reject := rejecting(t, natstest.Start(t).URL())
	m := harness.Rendezvous(t, filepath.Join(t.TempDir(), "tokens.json"), "--nats", url)
	reject()
	defer time.AfterFunc(harness.Patience, func() { _ = m.Cmd.Process.Kill() }).Stop()
	err := m.Cmd.Wait()
	if code := m.Cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(m.Said.String(), "\nError: --nats: the connection to NATS is closed and is not retried: ") {
		t.Errorf("got error %v, m.Said %s; want exit code 1, m.Said with %q", err, &m.Said, "\nError: --nats: the connection to NATS is closed and is not retried: ")
	}
}

func TestRendezvousNATSUsage(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	other := filepath.Join(t.TempDir(), "other")
	harness.Must(t, os.WriteFile(other, []byte("other"), 0o600))
	for _, tt := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"a password in argv", []string{"--nats", "nats://user:secret@127.0.0.1"}, 2, "CODEX_RENDEZVOUS_NATS_URL"},
		{"a state file too", []string{"--nats", "nats://127.0.0.1:1", "--state", "s"}, 2, "exclude each other"},
		{"credentials for nothing", []string{"--nats-creds", "f"}, 2, "--nats-creds needs --nats"},
		{"no credentials", []string{"--nats", "nats://127.0.0.1:1", "--nats-creds", tokens + "/none"}, 1, "--nats-creds"},
		{"credentials in another file", []string{"--nats", "nats://127.0.0.1:1", "--nats-creds", other}, 1, "credentials: " + other + " does not have the credentials of a NATS user"},
		{"replicas", []string{"--nats", "nats://127.0.0.1:1", "--nats-replicas", "6"}, 2, "for flag -nats-replicas: must be at most 5"},
		{"no URL of NATS", []string{"--nats", "http://127.0.0.1:1"}, 1, "nats://HOST:PORT"},
	} {
		out, errs, code := harness.Run(t, "", append([]string{"rendezvous", "--listen", "127.0.0.1:0", "--tokens", tokens}, tt.args...)...)
		if code != tt.code || out != "" || !strings.Contains(errs, tt.says) || strings.Contains(errs, "secret") {
			t.Errorf(`%s: got exit code %d, stdout %q, stderr %q; want exit code %d, stdout "", stderr with %q, stderr without "secret"`, tt.name, code, out, errs, tt.code, tt.says)
		}
	}
}
