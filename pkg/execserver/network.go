package execserver

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/confine"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/sandbox/egress"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/runner"
)

// openNetwork starts the network proxy of a process, if the process gets one, and adds the
// proxy to the environment of its command. If the sandbox has no network, no proxy is started:
// the command could not reach it, and variables with unreachable ports make programs fail later
// and with worse errors.
func openNetwork(_ context.Context, st *start) error {
	n, confinement, srv := st.network, st.confinement, st.c.srv
	if confinement != nil && confinement.ManagedNetwork {
		confinement.ProxyPorts, confinement.UnixSockets = n.ports, n.unixSockets
	}
	offline := confinement != nil && !confinement.ManagedNetwork && confinement.Profile.Network != permissions.NetworkEnabled &&
		confinement.Profile.Kind != permissions.Disabled
	if n.policy == nil || offline {
		return nil
	}
	if err := srv.egress.Works(); err != nil {
		return execproto.Internal("this server cannot give processes network proxies: " + err.Error())
	}
	proxy, err := srv.egress.Start(n.policy, egress.Hooks{Ask: st.p.askClient, Report: st.p.reportDecision})
	if err != nil {
		return execproto.Internal(err.Error())
	}
	st.network.policy = nil // the proxy has the policy, and ends before the process is forgotten
	st.p.setNetwork(proxy)
	st.spec.Env = proxy.Environ(st.spec.Env)
	if confinement != nil && confinement.ManagedNetwork {
		confinement.ProxyPorts, confinement.Redirect = proxy.Ports(), true
	}
	if bundle := proxy.Bundle(); bundle != "" && confinement != nil {
		confine.GrantRead(&confinement.Profile, bundle)
	}
	return nil
}

// closeNetwork closes the network proxy of a start that has failed.
func closeNetwork(st *start, err error) error {
	st.p.closeNetwork()
	return err
}

// setNetwork replaces the process's network proxy and returns the previous one.
func (p *proc) setNetwork(proxy *egress.Proxy) *egress.Proxy {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.network
	p.network = proxy
	return old
}

// redirect makes the process's network proxy serve the connections and DNS queries that bypass
// the proxy. The launcher sends their descriptors over a socket, which redirect closes.
func (p *proc) redirect(socket *os.File) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.network == nil {
		_ = socket.Close()
		return
	}
	if err := p.network.Redirect(socket); err != nil {
		p.s.srv.log.Warn("programs without proxy support have no network", "process", shorten(p.id), "error", err)
	}
}

// stopAsking denies all current and later questions about the hosts of the process, if it has a
// network proxy.
func (p *proc) stopAsking() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.network != nil {
		p.network.StopAsking()
	}
}

// closeNetwork ends the process's network proxy, if it has one. When it returns, the ports are
// closed. It drops the reference to the proxy, because the policy may be large and closed
// processes are retained for some time.
func (p *proc) closeNetwork() {
	if proxy := p.setNetwork(nil); proxy != nil {
		proxy.Close()
	}
}

// askClient asks the attached client about a host. If no client is attached, the zero Answer
// denies: a later connection does not get the question.
func (p *proc) askClient(ctx context.Context, q egress.Question) egress.Answer {
	c := p.s.attached()
	if c == nil || !c.greeted(ctx) {
		return egress.Answer{}
	}
	d, ok := c.questions.ask(ctx, c, execproto.PolicyRequestParams{
		ProcessID: p.id,
		Request:   execproto.PolicyRequest{Protocol: string(q.Protocol), Host: q.Host, Port: q.Port},
	})
	switch {
	case !ok:
		return egress.Answer{}
	case d.Type == string(egress.Pass):
		return egress.Answer{Verdict: egress.Pass}
	case d.Reason == nil:
		return egress.Answer{}
	default:
		return egress.Answer{Verdict: egress.Verdict(d.Type), Reason: *d.Reason}
	}
}

// reportDecision reports a decision to the attached client. If the client does not read, the
// report is dropped, because proxies must not wait for the client.
func (p *proc) reportDecision(r egress.Report) {
	p.denials.add(r)
	p.s.srv.events.NetworkDecided.Tell(observe.Decision{
		Process: &p.seen, Verdict: string(r.Verdict), Source: string(r.Source), Reason: r.Reason, Asked: r.Source == egress.Decider,
		Protocol: string(r.Protocol), Host: r.Host, Method: r.Method, Port: r.Port,
	})
	c := p.s.attached()
	if c == nil || !c.isGreeted() {
		return
	}
	scope := "non_domain"
	if r.Domain {
		scope = "domain"
	}
	c.out.offer(execproto.Notify(&execproto.PolicyDecisionNotification{
		ProcessID: p.id, Timestamp: r.Time.UTC().Format("2006-01-02T15:04:05.000Z"), Scope: scope,
		Decision: string(r.Verdict), Source: string(r.Source), Reason: r.Reason, Protocol: string(r.Protocol),
		Host: r.Host, Port: r.Port, Method: r.Method, Client: r.Client, PolicyOverride: r.Override,
	}))
}

// newEgress makes the egress.Host, which the network proxies of all processes share.
func (srv *Server) newEgress() *egress.Host {
	opts := egress.Options{
		Logger: srv.log, PrivateViaUpstream: srv.opts.ProxyPrivateIPsViaUpstream, OwnPort: srv.listensOn,
		Ceiling: srv.rules.Load().EgressPolicy, TCPUpstream: srv.opts.TCPUpstream,
	}
	if srv.opts.CodexHome != "" {
		opts.BundleDir = filepath.Join(srv.opts.CodexHome, "proxy")
		removed, err := egress.RemoveBundles(opts.BundleDir)
		if removed > 0 || err != nil {
			srv.log.Info("removed certificate bundles of servers that were killed", "removed", removed, "error", err)
		}
	}
	return egress.NewHost(opts)
}

// listensOn reports whether this server accepts clients on a port.
func (srv *Server) listensOn(port uint16) bool {
	_, found := srv.ports.Load(port)
	return found
}

// listening records an address on which this server accepts clients. The address comes from a
// listener or from a request, because an embedding program has listeners that the server does
// not know.
func (srv *Server) listening(on any) {
	if a, ok := on.(*net.TCPAddr); ok {
		srv.ports.LoadOrStore(a.AddrPort().Port(), nil)
	}
}

// noProxies is the message of a record that is repeated with each session.
const noProxies = "processes can have no network proxies"

// proxies reports whether processes can have network proxies on this machine.
func (srv *Server) proxies(status runner.Status) bool {
	if !status.Complete {
		return false
	}
	err := srv.egress.Works()
	if err != nil {
		srv.log.Warn(noProxies, "error", err)
	}
	return err == nil
}

// denials counts the denied requests of a process. Its methods may be called from any
// goroutine.
type denials struct {
	mu    sync.Mutex
	found []execproto.Denial // in the order of their first occurrence
}

// add counts a decision if it is a denial. Denials beyond maxDenials are counted together,
// without a host.
func (x *denials) add(r egress.Report) {
	if r.Verdict == egress.Pass {
		return
	}
	d := execproto.Denial{
		Kind: execproto.DenialNetwork, Host: r.Host, Port: r.Port, Protocol: string(r.Protocol), Reason: r.Reason,
		Rule: string(r.Rule), Detail: r.Detail,
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.count(d) {
		return
	}
	if len(x.found) >= maxDenials {
		if d = (execproto.Denial{Kind: execproto.DenialNetwork}); x.count(d) {
			return
		}
	}
	d.Count = 1
	x.found = append(x.found, d)
}

// count counts a denial that has occurred before. The caller holds the lock.
func (x *denials) count(d execproto.Denial) bool {
	for i := range x.found {
		d.Count, d.Detail = x.found[i].Count, x.found[i].Detail // the first detail is reported
		if d == x.found[i] {
			x.found[i].Count++
			return true
		}
	}
	return false
}

// list returns the denials so far.
func (x *denials) list() []execproto.Denial {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]execproto.Denial(nil), x.found...)
}
