package execserver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/sandbox/egress"
	"codex.internal/pkg/sandbox/runner"
	"codex.internal/pkg/wire/jsonrpc"
	"codex.internal/pkg/wire/websocket"
)

// launching returns the params of a process with a network proxy.
func launching(change func(*execproto.StartParams)) *execproto.StartParams {
	p := &execproto.StartParams{ProcessID: "p", NetworkProxy: &execproto.NetworkProxyLaunch{
		Proxy: execproto.NetworkProxy{Enabled: true, Mode: execproto.NetworkFull},
	}}
	change(p)
	return p
}

func TestNetworkLaunch(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*execproto.StartParams)
		want   string // the expected error; "": none
	}{
		"the smallest": {func(*execproto.StartParams) {}, ""},
		"not enabled": {func(p *execproto.StartParams) { p.NetworkProxy.Proxy.Enabled = false },
			"invalid network proxy config: executor-local network proxy launch requires an enabled proxy"},
		"transparent without a sandbox": {func(p *execproto.StartParams) {
			p.NetworkProxy.Proxy.TransparentTCP, p.EnforceManagedNetwork = true, true
		},
			"transparent TCP requires a managed Linux sandbox"},
		"transparent without SOCKS": {func(p *execproto.StartParams) {
			p.NetworkProxy.Proxy.TransparentTCP, p.NetworkProxy.Proxy.EnableSOCKS5, p.Sandbox = true, false, []byte("{}")
		}, "invalid network proxy config: transparent_tcp requires an enabled managed SOCKS5 proxy"},
		"transparent": {func(p *execproto.StartParams) {
			p.NetworkProxy.Proxy.TransparentTCP, p.NetworkProxy.Proxy.EnableSOCKS5, p.Sandbox = true, true, []byte("{}")
		}, ""},
		"a bad pattern": {func(p *execproto.StartParams) {
			p.NetworkProxy.Proxy.Domains = map[string]execproto.DomainPermission{"a b": execproto.DomainAllow}
		}, "invalid network proxy config: unsupported domain pattern syntax: a b"},
		"a relative socket": {func(p *execproto.StartParams) {
			p.NetworkProxy.Proxy.UnixSockets = map[string]execproto.DomainPermission{"x": execproto.DomainAllow}
		}, `invalid network proxy config: invalid network.allow_unix_sockets[0]: expected a NUL-free absolute path for Linux, got "x"`},
		"no time": {func(p *execproto.StartParams) { p.NetworkProxy.PolicyDecisionTimeoutMS = new(uint64) },
			"network policy decision callback timeout must be nonzero"},
		"the longest time":           {func(p *execproto.StartParams) { p.NetworkProxy.PolicyDecisionTimeoutMS = new(uint64(1<<64 - 1)) }, ""},
		"a long id and no questions": {func(p *execproto.StartParams) { p.ProcessID = strings.Repeat("p", 257) }, ""},
		"a long id and questions": {func(p *execproto.StartParams) {
			p.ProcessID, p.NetworkProxy.PolicyDecisionTimeoutMS = strings.Repeat("p", 257), new(uint64(1))
		}, "callback-enabled process ID must be non-empty and at most 256 bytes"},
	} {
		n, err := newNetworkRequest(launching(tt.change))
		if tt.want == "" && (err != nil || n.policy == nil) || tt.want != "" && (err == nil || err.Error() != tt.want || toRPC(err).Code != execproto.CodeInvalidParams) {
			t.Errorf("%s: got error %v; want no error, n.policy that is not nil, an error, %v, toRPC(err).Code %v", name, err, tt.want, execproto.CodeInvalidParams)
		}
	}
	n, err := newNetworkRequest(&execproto.StartParams{ManagedNetwork: &execproto.ManagedNetwork{}})
	if err != nil || n.policy != nil || n.ports == nil {
		t.Errorf("managedNetwork without ports allows any: %+v %v", n, err)
	}
}

// discard is a transport that drops its messages.
type discard struct{ websocket.Transport }

func (discard) Open(b []byte) []byte        { return b }
func (discard) Seal(b []byte, _ int) []byte { return b }

// askingProc returns a process of a session whose connection is c.
func askingProc(t *testing.T) (*proc, *conn) {
	srv := &Server{events: new(observe.Events)}
	c := &conn{srv: srv, out: newOutbox(discard{}, srv.events), answered: make(chan struct{})}
	close(c.answered)
	c.waits, c.hangup = context.WithCancel(t.Context())
	return &proc{id: "p", s: &session{srv: srv, conn: c}}, c
}

// TestQuestions: an answer ends the question with its id, a second answer is
// ignored, and an answer without a question is detected.
func TestQuestions(t *testing.T) {
	var x questions
	id, answer := x.begin()
	if id != 1 {
		t.Fatalf("the first id is %d", id)
	}
	for _, tt := range []struct {
		text string
		ok   bool
	}{
		{`{"id":2,"result":{"decision":{"type":"allow"}}}`, false},
		{`{"id":0,"result":{}}`, false},
		{`{"id":"1","result":{}}`, false},
		{`{"id":1,"result":{"decision":{"type":"allow"}}}`, true},
		{`{"id":1,"error":{"code":1,"message":"late"}}`, true},
	} {
		m, err := jsonrpc.Decode([]byte(tt.text))
		if err != nil {
			t.Fatal(err)
		}
		if ok := x.answer(m); ok != tt.ok {
			t.Errorf("%s: got %v, want %v", tt.text, ok, tt.ok)
		}
	}
	if d := <-answer; d == nil || d.Type != "allow" {
		t.Errorf(`got %+v; want d that is not nil, d.Type "allow"`, d)
	}
}

// TestQuestionsEnd: a question ends without an answer when the client is gone, and
// is not asked when too many are open.
func TestQuestionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := askingProc(t)
		answers := make(chan egress.Answer)
		go func() {
			answers <- p.askClient(t.Context(), egress.Question{Protocol: egress.HTTP, Host: "a.test", Port: 80})
		}()
		synctest.Wait()
		c.hangup()
		if a := <-answers; a != (egress.Answer{}) {
			t.Errorf("got %+v, want egress.Answer{}", a)
		}
		for range maxQuestions {
			c.questions.begin()
		}
		ctx, done := context.WithTimeout(t.Context(), time.Hour)
		defer done()
		began := time.Now()
		if a := p.askClient(ctx, egress.Question{}); a != (egress.Answer{}) || time.Since(began) > 0 {
			t.Errorf("%+v after %s", a, time.Since(began))
		}
		p.s.conn = nil
		if a := p.askClient(ctx, egress.Question{}); a != (egress.Answer{}) {
			t.Errorf("without a connection: %+v", a)
		}
	})
}

// TestNothingComesBeforeTheAnswer: a client that resumes its session must get the answer to
// initialize first, and only then questions and output.
func TestNothingComesBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := askingProc(t)
		p.s.ctx = t.Context()
		c.answered = make(chan struct{})
		go p.askClient(t.Context(), egress.Question{Protocol: egress.HTTP, Host: "a.test", Port: 80})
		go p.Output(1, "stdout", []byte("x"))
		p.reportDecision(egress.Report{Host: "a.test"})
		synctest.Wait()
		if len(c.out.queue) > 0 {
			t.Errorf("sent %q", c.out.queue)
		}
		close(c.answered)
		synctest.Wait()
		for _, want := range []string{execproto.MethodPolicyRequest, execproto.NotifyProcessOutput} {
			if !strings.Contains(string(c.out.queue), want) {
				t.Errorf("%s was not sent: %q", want, c.out.queue)
			}
		}
		c.hangup()
	})
}

// TestNoProxiesWhereUsersAreUnknown: if a proxy would refuse every connection, initialize does
// not announce proxies.
func TestNoProxiesWhereUsersAreUnknown(t *testing.T) {
	srv, _ := newTestServer(t, Options{})
	if !srv.proxies(runner.Status{Complete: true}) {
		t.Error("there are no proxies here")
	}
	if srv.proxies(runner.Status{}) {
		t.Error("there are proxies without a sandbox")
	}
	srv.egress = egress.NewHost(egress.Options{UserOf: func(net.Conn) (int, error) { return 0, errors.New("not known") }})
	if srv.proxies(runner.Status{Complete: true}) {
		t.Error("there are proxies that no process could use")
	}
}

// TestClosedProcessesForgetTheirPolicy: a closed process does not retain its network policy. A
// session retains thousands of closed processes, and a policy may have thousands of patterns.
func TestClosedProcessesForgetTheirPolicy(t *testing.T) {
	srv, url := newTestServer(t, Options{})
	p, id := hello(t, url)
	p.start("a", "true", object{"networkProxy": object{"proxy": object{
		"enabled": true, "enableSocks5": true, "enableSocks5Udp": false, "allowUpstreamProxy": false,
		"dangerouslyAllowAllUnixSockets": false, "mode": "full", "allowLocalBinding": false,
	}}})
	p.closed("a")
	srv.mu.Lock()
	s := srv.sessions[id]
	srv.mu.Unlock()
	closed := s.find("a")
	if closed == nil {
		t.Fatal("the process is forgotten")
	}
	closed.mu.Lock()
	defer closed.mu.Unlock()
	if closed.network != nil {
		t.Error("the proxy is kept")
	}
}

// TestEmbeddedServersKnowTheirPort: a program serves the handler on its own listener. The
// server then knows that it accepts clients on that port.
func TestEmbeddedServersKnowTheirPort(t *testing.T) {
	srv, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = srv.Shutdown(context.Background()) }()
	web := httptest.NewServer(srv)
	defer web.Close()
	resp, err := http.Get(web.URL + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if port := web.Listener.Addr().(*net.TCPAddr).AddrPort().Port(); !srv.listensOn(port) || srv.listensOn(port^1) {
		t.Errorf("the server does not know that it listens on port %d", port)
	}
}
