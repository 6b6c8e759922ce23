package execserver

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/wsauth"
	"github.com/gorilla/websocket"
)

// tokenServer starts a server whose clients need tokens. It returns a function that connects a
// client with the token of that name.
func tokenServer(t *testing.T, opts Options) func(name string) *peer {
	t.Helper()
	tokens := wsauth.OpenTokens(filepath.Join(t.TempDir(), "tokens.json"))
	auth, err := wsauth.New(wsauth.Config{Mode: wsauth.CapabilityToken, TokensFile: tokens.Path()})
	if err != nil {
		t.Fatal(err)
	}
	opts.Auth = auth
	_, url := newTestServer(t, opts)
	secrets := make(map[string]string)
	return func(name string) *peer {
		t.Helper()
		if secrets[name] == "" {
			if secrets[name], _, err = tokens.Create(t.Context(), wsauth.TokenSpec{Name: name, Role: wsauth.RoleRun}); err != nil {
				t.Fatal(err)
			}
		}
		ws, _, err := websocket.DefaultDialer.Dial(url, http.Header{"Authorization": {"Bearer " + secrets[name]}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ws.Close() })
		p := &peer{t: t, ws: ws}
		p.initialize("")
		return p
	}
}

// TestATokenLeavesProcesses: a client with many connections, each with as many processes as a
// session may have, leaves half of all processes to the other clients.
func TestATokenLeavesProcesses(t *testing.T) {
	const each = 4
	connect := tokenServer(t, Options{MaxProcesses: each})
	start := func(p *peer, id int) string {
		t.Helper()
		m := p.answer(p.send(execproto.MethodProcessStart, object{
			"processId": fmt.Sprint(id), "argv": []string{"sleep", "60"}, "cwd": "file:///", "env": object{"PATH": "/bin:/usr/bin"}, "tty": false,
		}))
		if m.Error == nil {
			return ""
		}
		return m.Error.Message
	}
	var peers []*peer
	for i := range fullSessions * each / 2 {
		if i%each == 0 {
			peers = append(peers, connect("many"))
		}
		if text := start(peers[i/each], i); text != "" {
			t.Fatalf("process %d: got %q, want it started", i, text)
		}
	}
	const full = "the limit processes is reached: the server has 16 for all clients, of which 8 are in use, 8 of them"
	if got := start(connect("many"), 0); !strings.HasPrefix(got, full) {
		t.Errorf("beyond the half: got %q, want %q", got, full)
	}
	// What has ended is given back.
	peers[0].call(execproto.MethodProcessTerminate, object{"processId": "0"}, nil)
	peers[0].closed("0")
	if got := start(connect("many"), 0); got != "" {
		t.Errorf("in the place of one that has ended: got %q, want it started", got)
	}
	if got := start(connect("other"), 0); got != "" {
		t.Errorf("of another token: got %q, want it started", got)
	}
}

// TestATokenLeavesDescriptors: handles, listeners and tunnels of all connections of a client
// together take at most half of the descriptors that the server has for clients.
func TestATokenLeavesDescriptors(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	// The server reads the limit when it is made. It does not reach it.
	low := syscall.Rlimit{Cur: 200, Max: limit.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	connect := tokenServer(t, Options{})
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	mustWrite(t, dir+"/f", []byte("text"))
	open := func(p *peer, id int) string {
		t.Helper()
		if m := p.answer(p.send("fs/open", object{"handleId": fmt.Sprint(id), "path": uri(dir, "f")})); m.Error != nil {
			return m.Error.Message
		}
		return ""
	}
	first, second := connect("many"), connect("many")
	for i := range 48 {
		if text := open([]*peer{first, second}[i%2], i); text != "" {
			t.Fatalf("handle %d: got %q, want it open", i, text)
		}
	}
	first.call("tunnel/listen", object{"listenerId": 1, "port": 0, "window": 1000}, nil)
	second.tunnelTo(l, 1)
	const full = "the limit descriptors is reached: the server has 100 for all clients, of which 50 are in use, 50 of them"
	second.refuse("fs/open", object{"handleId": "x", "path": uri(dir, "f")}, -32600, full)
	second.refuse("tunnel/listen", object{"listenerId": 2, "port": 0, "window": 1000}, -32600, full)
	second.refuse("tunnel/open", object{"tunnelId": 3, "port": l.Addr().(*net.TCPAddr).Port, "window": 1000}, -32600, full)
	// Each kind is given back.
	second.call("fs/close", object{"handleId": "1"}, nil)
	first.call("tunnel/unlisten", object{"listenerId": 1}, nil)
	for i := range 2 {
		if got := open(second, 100+i); got != "" {
			t.Errorf("in the place of one that was closed: got %q, want it open", got)
		}
	}
	if got := open(connect("other"), 0); got != "" {
		t.Errorf("of another token: got %q, want it open", got)
	}
}
