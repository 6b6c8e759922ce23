package execserver

import (
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"codex.internal/pkg/sandbox/egress"
)

// tunnelTo opens a tunnel of a test client to the test's listener, and returns the accepted
// connection.
func (p *peer) tunnelTo(l net.Listener, id uint64) net.Conn {
	p.t.Helper()
	var r struct{ Window uint64 }
	p.call("tunnel/open", object{"tunnelId": id, "host": "127.0.0.1", "port": l.Addr().(*net.TCPAddr).Port, "window": 1 << 20}, &r)
	if r.Window == 0 {
		p.t.Fatal("the tunnel has no window")
	}
	conn, err := l.Accept()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func listenLocal(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func (p *peer) note(method string, params object) {
	p.t.Helper()
	text, err := json.Marshal(object{"method": method, "params": params})
	if err != nil {
		p.t.Fatal(err)
	}
	p.text(string(text))
}

// closedTunnel reads until a tunnel is closed, and returns the reason.
func (p *peer) closedTunnel(id uint64) string {
	p.t.Helper()
	var n struct {
		TunnelID uint64
		Reason   string
	}
	p.wait(func(m message) bool {
		n.Reason = ""
		return m.Method == "tunnel/close" && json.Unmarshal(m.Params, &n) == nil && n.TunnelID == id
	})
	return n.Reason
}

func TestTunnelParams(t *testing.T) {
	_, url := newTestServer(t, Options{})
	p, _ := hello(t, url)
	l := listenLocal(t)
	p.tunnelTo(l, 1)
	port := l.Addr().(*net.TCPAddr).Port
	for want, params := range map[string]object{
		"tunnelId must be odd":           {"tunnelId": 2, "port": port, "window": 1},
		"window must be more than 0":     {"tunnelId": 3, "port": port, "window": 0},
		"not both":                       {"tunnelId": 3, "port": port, "path": "/x", "window": 1},
		"needs a port":                   {"tunnelId": 3, "host": "x", "window": 1},
		"tunnelId 1 is in use":           {"tunnelId": 1, "port": port, "window": 1},
		"host must not exceed 255 bytes": {"tunnelId": 3, "host": strings.Repeat("x", 256), "port": 1, "window": 1},
		"missing field `window`":         {"tunnelId": 3, "port": port},
		"expected u16":                   {"tunnelId": 3, "port": 65536, "window": 1},
	} {
		p.refuse("tunnel/open", params, -32602, want)
	}
	dial(t, url).refuse("tunnel/open", object{"tunnelId": 1, "port": port, "window": 1}, -32600, "client must call initialize before using tunnel methods")
}

// TestTunnelViolations: if a client breaks the rules of a tunnel, only that tunnel ends.
func TestTunnelViolations(t *testing.T) {
	_, url := newTestServer(t, Options{})
	p, _ := hello(t, url)
	l := listenLocal(t)
	for i, tt := range []struct {
		method string
		params object
		reason string
	}{
		{"tunnel/data", object{"offset": 5, "data": "eA=="}, "bytes of the tunnel are missing"},
		{"tunnel/data", object{"offset": uint64(1 << 63), "data": "eA=="}, "bytes of the tunnel are missing"},
		{"tunnel/ack", object{"position": 1}, "bytes were acknowledged that were not sent"},
	} {
		id := uint64(2*i + 1)
		conn := p.tunnelTo(l, id)
		tt.params["tunnelId"] = id
		p.note(tt.method, tt.params)
		if reason := p.closedTunnel(id); reason != tt.reason {
			t.Errorf("%s: closed with %q", tt.method, reason)
		}
		if _, err := conn.Read(make([]byte, 1)); err == nil || err == io.EOF {
			t.Errorf("%s: the connection ends with %v", tt.method, err)
		}
	}
	for _, method := range []string{"tunnel/data", "tunnel/ack", "tunnel/close"} {
		p.note(method, object{"tunnelId": 99, "offset": 0, "data": "", "position": 0}) // the tunnel does not exist
	}
	p.call("process/list", nil, nil)
}

// TestTunnelResume: when a session is resumed, a tunnel that the client does not name ends.
func TestTunnelResume(t *testing.T) {
	srv, url := newTestServer(t, Options{})
	p, session := hello(t, url)
	l := listenLocal(t)
	kept, dropped := p.tunnelTo(l, 1), p.tunnelTo(l, 3)
	_, _ = io.WriteString(kept, "before")
	_ = p.ws.Close()
	awaitConns(t, srv, 0)
	_, _ = io.WriteString(kept, " after")

	q := takeOver(t, url, session)
	var r struct {
		Tunnels []struct{ TunnelID, Received uint64 }
	}
	q.call("tunnel/resume", object{"tunnels": []object{{"tunnelId": 1, "received": 0}, {"tunnelId": 77, "received": 9}}, "listeners": []object{}}, &r)
	if len(r.Tunnels) != 1 || r.Tunnels[0].TunnelID != 1 || r.Tunnels[0].Received != 0 {
		t.Errorf("it resumed %+v", r)
	}
	var got []byte
	for len(got) < len("before after") {
		var n struct {
			Offset uint64
			Data   []byte
		}
		q.wait(func(m message) bool { return m.Method == "tunnel/data" && json.Unmarshal(m.Params, &n) == nil })
		if n.Offset != uint64(len(got)) {
			t.Fatalf("bytes from %d on came after %q", n.Offset, got)
		}
		got = append(got, n.Data...)
	}
	if string(got) != "before after" {
		t.Errorf(`got %q, want "before after"`, got)
	}
	if _, err := dropped.Read(make([]byte, 1)); err == nil {
		t.Error("a tunnel that was not resumed goes on")
	}
	q.note("tunnel/data", object{"tunnelId": 1, "offset": 0, "data": "aGk=", "end": true})
	if text, err := io.ReadAll(kept); string(text) != "hi" || err != nil {
		t.Errorf(`got text %q, error %v; want text "hi", no error`, text, err)
	}
}

// TestTunnelListenLimit listens on as many ports as a session may.
func TestTunnelListenLimit(t *testing.T) {
	_, url := newTestServer(t, Options{})
	p, _ := hello(t, url)
	for id := range 64 {
		p.call("tunnel/listen", object{"listenerId": id, "port": 0, "window": 1}, nil)
	}
	p.refuse("tunnel/listen", object{"listenerId": 64, "port": 0, "window": 1}, -32600, "at most 64 ports")
	p.refuse("tunnel/listen", object{"listenerId": 0, "port": 0, "window": 1}, -32602, "listenerId 0 is in use")
	wantMetrics(t, url, `exec_server_limit_reached_total{limit="listeners"} 1`)
	p.call("tunnel/unlisten", object{"listenerId": 0}, nil)
	p.call("tunnel/unlisten", object{"listenerId": 0}, nil) // an unknown listener is no error
	p.call("tunnel/listen", object{"listenerId": 0, "port": 0, "window": 1}, nil)
}

// TestTunnelsEndWithTheSession ends a session with tunnels and a listener.
func TestTunnelsEndWithTheSession(t *testing.T) {
	_, url := newTestServer(t, Options{SessionTTL: -1})
	p, _ := hello(t, url)
	conn := p.tunnelTo(listenLocal(t), 1)
	var r struct{ Port uint16 }
	p.call("tunnel/listen", object{"listenerId": 1, "port": 0, "window": 1}, &r)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(io.Discard, conn) })
	_ = p.ws.Close()
	wg.Wait()
}

// TestTunnelsAndTheCeiling asks for hosts that the owner of the server does not permit.
func TestTunnelsAndTheCeiling(t *testing.T) {
	ceiling, err := egress.NewCeiling(egress.CeilingConfig{
		Default: egress.Deny, Allow: []string{"example.com", "198.51.100.7", "8.8.8.8"}, Deny: []string{"bad.example.com", "127.0.0.1:1"}, Ports: []uint16{443},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		host    string
		port    uint16
		address string // the address of the name; "": host is an address
		ok      bool
	}{
		{"example.com", 443, "93.184.215.14:443", true},
		{"example.com", 80, "", false},
		{"bad.example.com", 443, "", false},
		{"other.test", 443, "", false},
		{"example.com", 443, "10.0.0.1:443", false},  // the name resolves to an address in the owner's network
		{"example.com", 443, "127.0.0.1:443", false}, // the name resolves to this machine
		{"8.8.8.8", 443, "8.8.8.8:443", true},        // permitted by its address
		{"9.9.9.9", 443, "", false},                  // no rule permits it
		{"169.254.169.254", 443, "", false},          // a private address
		{"2852039166", 443, "", false},               // the same address, written as a number
		{"::ffff:169.254.169.254", 443, "", false},   // the same address as IPv6
		{"localhost", 3000, "127.0.0.1:3000", true},  // this machine may be reached, whatever the defaults and the ports are
		{"127.0.0.1", 3000, "127.0.0.1:3000", true},  //
		{"127.0.0.1", 1, "", false},                  // except if it is denied
		{"localhost", 1, "127.0.0.1:1", false},       // by another name too
		{"a b", 443, "", false},
	} {
		err := ceiling.PermitsTunnel(tt.host, tt.port)
		if err == nil && tt.address != "" {
			err = ceiling.PermitsAddress(netip.MustParseAddrPort(tt.address), tt.host)
		}
		if (err == nil) != tt.ok {
			t.Errorf("%s, %d, %s: got error %v, want success: %v", tt.host, tt.port, tt.address, err, tt.ok)
		}
	}
	srv, url := newTestServer(t, Options{Rules: Rules{EgressPolicy: ceiling}})
	_ = srv
	p, _ := hello(t, url)
	var r struct{ Failure, Reason string }
	p.call("tunnel/open", object{"tunnelId": 1, "host": "169.254.169.254", "port": 80, "window": 1}, &r)
	if r.Failure != "denied" || !strings.Contains(r.Reason, "egress policy") {
		t.Errorf(`got %+v; want r.Failure "denied", r.Reason with "egress policy"`, r)
	}
	p.tunnelTo(listenLocal(t), 1)
}
