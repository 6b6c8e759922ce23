package execserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/confine"
	"codex.internal/pkg/execserver/detach"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/host/envpolicy"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/host/shellsnapshot"
	"codex.internal/pkg/sandbox/egress"
	"codex.internal/pkg/sandbox/runner"
	"codex.internal/pkg/wire/pathuri"
)

// start is a process/start: its checked params (this file), and the results of its stages
// (stages.go). When you add a field, put it into its group.
type start struct {
	c *conn

	// The params.
	id       string
	metadata *execproto.StartMetadata // nil: none
	spec     process.Spec             // command, environment, terminal and limits; stages change them
	sandbox  *confine.Process         // nil: none
	network  networkRequest           // the proxy, and the network access of a sandbox
	shell    *snapshotRequest         // nil: start-up files run as usual
	detach   *detach.Record           // nil: the process ends with its session
	asksHeld bool                     // the client asks how the limits are enforced

	// The results of the stages.
	done        int                 // number of completed stages
	p           *proc               // registered in the session
	ctx         context.Context     // ends when the start is cancelled
	request     context.Context     // context of the worker, with the span of the request
	confinement *runner.Confinement // how the process is confined; nil: not at all
	running     *process.Process
}

// processStart accepts a process/start. If a keeper refuses its process, the keeper ends,
// because it was started only for this process, and its server waits until it ends.
func processStart(c *conn, params *execproto.StartParams) (call, error) {
	k := c.srv.keeper
	if k != nil {
		if err := k.Begin(params); err != nil {
			return call{}, err
		}
	}
	st, err := c.newStart(params)
	if err == nil && st.detach != nil {
		return startDetached(st, params), nil
	}
	if err == nil {
		err = st.advance(c.ctx, onReader)
	}
	if err != nil {
		if k != nil {
			k.End()
		}
		return call{}, err
	}
	return call{
		slow: true,
		turn: c.session.sequence.enter(st.id),
		run: func(request context.Context) (reply.Result, error) {
			defer st.p.stop()
			st.request = request
			if err := st.advance(st.ctx, onWorker); err != nil {
				return nil, err
			}
			answer := execproto.StartResult{ProcessID: st.id, SandboxType: st.p.seen.Sandbox, Limits: st.held()}
			return reply.Followed{Result: answer, Then: func() { _ = st.advance(st.ctx, afterAnswer) }}, nil
		},
		drop: func() { _ = st.fail(errEnded) },
	}, nil
}

// newStart builds a start from params. It makes all checks of the params that do not need the
// disk.
func (c *conn) newStart(params *execproto.StartParams) (*start, error) {
	st := &start{c: c, id: params.ProcessID, metadata: params.Metadata, asksHeld: params.Limits != nil}
	for _, part := range []func(*execproto.StartParams) error{
		st.buildDetach, st.buildCommand, st.buildSandbox, st.buildNetwork, st.buildShell,
	} {
		if err := part(params); err != nil {
			return nil, err
		}
	}
	return st, nil
}

// buildDetach determines whether the process is detached, and how it is retained. In a keeper,
// params.Detach is set too, but the process belongs to the keeper's session.
func (st *start) buildDetach(p *execproto.StartParams) error {
	c := st.c
	switch {
	case c.srv.keeper != nil:
		return nil
	case p.Detach == nil && p.Retain != nil:
		return execproto.InvalidParams("retain is for a process with detach")
	case p.Detach == nil:
		return nil
	}
	owner, err := c.ownerOf()
	if err == nil {
		st.detach, err = c.srv.detached.NewRecord(owner, c.grant, p)
	}
	return err
}

// buildCommand converts the params into the command to run.
func (st *start) buildCommand(p *execproto.StartParams) error {
	if len(p.ProcessID) > maxProcessID {
		return execproto.InvalidParams(fmt.Sprintf("processId must not exceed %d bytes", maxProcessID))
	}
	cwd, err := pathuri.Parse(p.Cwd, st.c.srv.home)
	var elsewhere *pathuri.HostError
	switch {
	case errors.As(err, &elsewhere):
		return execproto.InvalidParams(fmt.Sprintf("cwd URI `%s` is not valid on this exec-server host: %v", shorten(p.Cwd), err))
	case err != nil:
		return err
	}
	ceiling := &st.c.grant.Ceiling
	if err := confine.CheckStart(ceiling, p, cwd); err != nil {
		return err
	}
	st.spec = process.Spec{
		Argv: p.Argv, Arg0: p.Arg0, Dir: cwd, Env: envpolicy.Environ(os.Environ(), policyOf(p.EnvPolicy), p.Env),
		TTY: p.TTY, PipeStdin: p.PipeStdin, Window: p.OutputWindow, Limits: st.c.srv.limits(p.Limits, &ceiling.Limits),
	}
	if p.Size != nil {
		st.spec.Rows, st.spec.Cols = p.Size.Rows, p.Size.Cols
	}
	return nil
}

// policyOf returns the policy for the environment; nil: the default policy.
func policyOf(e *execproto.EnvPolicy) *envpolicy.Policy {
	if e == nil {
		return nil
	}
	return &envpolicy.Policy{
		Inherit: e.Inherit, IgnoreDefaultExcludes: e.IgnoreDefaultExcludes, Exclude: e.Exclude, Set: e.Set, IncludeOnly: e.IncludeOnly,
	}
}

// buildSandbox decodes the sandbox, if there is one.
func (st *start) buildSandbox(p *execproto.StartParams) (err error) {
	if p.Sandbox != nil {
		c := st.c
		st.sandbox, err = c.srv.confiner.Decode(p.Sandbox, st.spec.Dir, p.EnforceManagedNetwork || isTransparent(p), &c.grant.Ceiling)
	}
	return err
}

// isTransparent reports whether programs are to reach hosts without knowing of the network proxy.
// The proxy then is the only network of the process, even without enforceManagedNetwork.
func isTransparent(p *execproto.StartParams) bool {
	return p.NetworkProxy != nil && p.NetworkProxy.Proxy.TransparentTCP
}

// networkRequest is the part of a process/start about the process's network.
type networkRequest struct {
	policy *egress.Policy // nil: no network proxy
	// ports and unixSockets are for a sandbox whose only network is a proxy. ports are the only
	// ports on which the proxy may listen; nil: any. unixSockets permits Unix sockets.
	ports       []uint16
	unixSockets bool
}

func (st *start) buildNetwork(p *execproto.StartParams) (err error) {
	if st.c.srv.opts.TCPUpstream != nil && p.NetworkProxy == nil && p.Sandbox != nil && p.EnforceManagedNetwork {
		return execproto.InvalidParams("a mandatory TCP upstream requires an executor-local managed proxy")
	}
	st.network, err = newNetworkRequest(p)
	return err
}

// newNetworkRequest checks the members about the network.
func newNetworkRequest(p *execproto.StartParams) (networkRequest, error) {
	launch := p.NetworkProxy
	if launch == nil {
		var n networkRequest
		if m := p.ManagedNetwork; m != nil {
			n.ports, n.unixSockets = append([]uint16{}, m.LoopbackPorts...), m.DangerouslyAllowAllUnixSockets
		}
		return n, nil
	}
	switch {
	case isTransparent(p) && p.Sandbox == nil:
		return networkRequest{}, execproto.InvalidParams("transparent TCP requires a managed Linux sandbox")
	case isTransparent(p) && !launch.Proxy.EnableSOCKS5:
		return networkRequest{}, execproto.InvalidParams("invalid network proxy config: transparent_tcp requires an enabled managed SOCKS5 proxy")
	}
	config := egress.Config{
		SOCKS5: launch.Proxy.EnableSOCKS5, Upstream: launch.Proxy.AllowUpstreamProxy, LocalBinding: launch.Proxy.AllowLocalBinding,
		Limited: launch.Proxy.Mode == execproto.NetworkLimited, Review: launch.Proxy.ReviewDomains,
		Domains: permissionsOf(launch.Proxy.Domains), UnixSockets: permissionsOf(launch.Proxy.UnixSockets),
	}
	if limit := launch.PolicyDecisionTimeoutMS; limit != nil {
		switch {
		case *limit == 0:
			return networkRequest{}, execproto.InvalidParams("network policy decision callback timeout must be nonzero")
		case p.ProcessID == "" || len(p.ProcessID) > maxAskingID:
			return networkRequest{}, execproto.InvalidParams("callback-enabled process ID must be non-empty and at most 256 bytes")
		}
		config.AskTime = time.Duration(min(*limit, uint64(execproto.MaxWait/time.Millisecond))) * time.Millisecond
	}
	err := errors.New("executor-local network proxy launch requires an enabled proxy")
	var policy *egress.Policy
	if launch.Proxy.Enabled {
		policy, err = egress.NewPolicy(config)
	}
	if err != nil {
		return networkRequest{}, execproto.InvalidParams("invalid network proxy config: " + err.Error())
	}
	return networkRequest{policy: policy, unixSockets: launch.Proxy.DangerouslyAllowAllUnixSockets}, nil
}

func permissionsOf(domains map[string]execproto.DomainPermission) map[string]egress.Permission {
	m := make(map[string]egress.Permission, len(domains))
	for text, permission := range domains {
		m[text] = egress.Permission(permission)
	}
	return m
}

// snapshotRequest is the part of a process/start about its shell's start-up files.
type snapshotRequest struct {
	// key identifies the snapshot. It has everything on which the start-up files may depend,
	// except the variables of the request, so that requests with different variables share a
	// snapshot.
	key    string
	policy envpolicy.Policy // for the variables that start-up files export
	env    map[string]string
}

// buildShell checks the shellSnapshot, if there is one that has an effect.
func (st *start) buildShell(p *execproto.StartParams) error {
	s := p.ShellSnapshot
	if s == nil {
		return nil
	}
	if len(s.ScopeID) == 0 || len(s.ScopeID) > maxSnapshotScope {
		return execproto.InvalidParams(fmt.Sprintf("shell snapshot scope must be non-empty and at most %d bytes", maxSnapshotScope))
	}
	if len(p.Argv) < 3 || p.Argv[0] != s.Shell.Path || p.Argv[1] != "-lc" {
		return nil
	}
	switch s.Shell.Name {
	case shellsnapshot.Shell:
	case "zsh", "sh":
		return nil // the command then starts as without a snapshot
	default:
		return execproto.InvalidParams(fmt.Sprintf("shell snapshots are unsupported for shell `%s`", shorten(s.Shell.Name)))
	}
	rq := &snapshotRequest{env: p.Env, policy: envpolicy.Policy{IgnoreDefaultExcludes: true}}
	var policy []byte
	if e := p.EnvPolicy; e != nil {
		rq.policy = *policyOf(e)
		policy, _ = execproto.Append(nil, e)
	}
	rq.policy.Inherit = envpolicy.InheritAll
	for _, part := range []string{
		s.ScopeID, s.Shell.Path, p.Cwd, string(policy), string(p.Sandbox), strconv.FormatBool(p.EnforceManagedNetwork),
		strconv.FormatBool(p.NetworkProxy != nil), strconv.FormatBool(isTransparent(p)),
	} {
		rq.key += strconv.Itoa(len(part)) + ":" + part
	}
	st.shell = rq
	return nil
}
