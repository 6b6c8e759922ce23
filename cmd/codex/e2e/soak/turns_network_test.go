package soak

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

// environment requests information about the server's machine.
func environment(ctx context.Context, v *visit) error {
	return steps(
		func() error { _, err := v.client.EnvironmentInfo(ctx); return err },
		func() error {
			var r execproto.StatusResult
			return v.client.Call(ctx, execproto.MethodEnvironmentStatus, nil, &r)
		},
		func() error {
			_, err := v.client.ListProcesses(ctx, execproto.ListParams{Usage: true, Scope: execproto.ListPrincipal})
			return err
		},
		func() error { _, err := v.client.ListDetachedUsage(ctx); return err },
		func() error {
			var r execproto.ConfigReadResult
			return v.client.Call(ctx, execproto.MethodEnvironmentConfigRead, &execproto.ConfigReadParams{
				Cwd: "file://" + v.dir, ConfigPaths: [][]string{{"mcp_servers"}}, RequirementsPaths: [][]string{{"mcp_servers"}},
			}, &r)
		},
	)
}

// capabilities requests plugins and skills, some of them in a sandbox.
func capabilities(ctx context.Context, v *visit) error {
	var roots execproto.DiscoverResult
	err := v.client.Call(ctx, execproto.MethodCapabilityRootsDiscover, &execproto.DiscoverParams{Roots: []execproto.DiscoverRoot{
		{ID: "a", Path: "file://" + filepath.Join(v.Dir, "capability"), Sandbox: execclient.ReadOnlySandbox()},
	}}, &roots)
	if err != nil {
		return err
	}
	if len(roots.Roots) != 1 || len(roots.Roots[0].Skills) != 1 {
		return fmt.Errorf("not one skill of one root: %+v", roots)
	}
	var installed execproto.InstalledResult
	return v.client.Call(ctx, execproto.MethodCapabilitiesDiscover, &execproto.InstalledParams{Cwd: "file://" + v.dir, Sandbox: v.sandbox()}, &installed)
}

// webRequests makes the server send two requests. The response of the first arrives as a whole, and
// that of the second is streamed.
func webRequests(ctx context.Context, v *visit) error {
	r, err := v.client.DoHTTP(ctx, execproto.HTTPRequestParams{Method: "GET", URL: v.outside.url + "/small", RequestID: v.id("http")})
	if err != nil {
		return err
	}
	if err := expect("body", string(r.Body), smallBody); err != nil {
		return err
	}
	response, err := v.get(ctx, "/large")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	n, err := io.Copy(io.Discard, response.Body)
	if err != nil {
		return err
	}
	return expect("bytes of a body", n, largeBody)
}

// get makes a request from the server's machine.
func (v *visit) get(ctx context.Context, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, v.outside.url+path, nil)
	if err != nil {
		return nil, err
	}
	return v.client.HTTP().RoundTrip(request)
}

// abandonedRequest reads a part of an endless body.
func abandonedRequest(ctx context.Context, v *visit) error {
	response, err := v.get(ctx, "/endless")
	if err != nil {
		return err
	}
	_, err = io.CopyN(io.Discard, response.Body, 300_000)
	err = errors.Join(err, response.Body.Close())
	// The protocol has no message to end the request. The end of the connection ends it.
	v.leave()
	return err
}

// tunnel sends bytes to a port of the server's machine, and receives them back.
func tunnel(ctx context.Context, v *visit) error { return v.echo(ctx, func() {}) }

// cutTunnel cuts the connection meanwhile. The tunnel must not be affected.
func cutTunnel(ctx context.Context, v *visit) error {
	return v.echo(ctx, func() { v.cut(v.proxy) })
}

// echo sends bytes through a tunnel to the echo server, half of them after it has called disturb.
func (v *visit) echo(ctx context.Context, disturb func()) error {
	t, err := v.client.OpenTunnel(ctx, execclient.TunnelTarget{Port: v.outside.port})
	if err != nil {
		return err
	}
	defer t.Close()
	data := bytes.Repeat([]byte("tunnel "), 1+v.rng.IntN(20_000))
	sent := make(chan error, 1)
	go func() { sent <- v.send(t, data, disturb) }()
	got, err := io.ReadAll(t)
	if err := errors.Join(err, <-sent); err != nil {
		return err
	}
	if !bytes.Equal(got, data) {
		return fmt.Errorf("%d bytes sent, %d received, or others", len(data), len(got))
	}
	return nil
}

func (v *visit) send(t *execclient.Tunnel, data []byte, disturb func()) error {
	half := len(data) / 2
	_, err := t.Write(data[:half])
	if err != nil {
		return err
	}
	disturb()
	if _, err := t.Write(data[half:]); err != nil {
		return err
	}
	return t.CloseWrite()
}

// listening makes the server listen, and accepts a connection.
func listening(ctx context.Context, v *visit) error {
	l, err := v.client.Listen(ctx, "", 0)
	if err != nil {
		return err
	}
	defer l.Close()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	accepted := make(chan error, 1)
	go func() {
		t, err := l.Accept()
		if err == nil {
			_, err = io.WriteString(t, greeting)
			err = errors.Join(err, t.Close())
		}
		accepted <- err
	}()
	// If the connection is lost, connections that have arrived at the listener meanwhile
	// are closed.
	got, err := io.ReadAll(conn)
	if err := errors.Join(err, l.Close(), <-accepted); err != nil {
		return err
	}
	return expect("what came", string(got), greeting)
}

// tunnelInside reaches a program in a sandbox without a network.
func tunnelInside(ctx context.Context, v *visit) error {
	p, _, err := v.startGreeter(ctx, v.sandbox())
	if p != nil {
		defer v.endGreeter(p)
	}
	if err != nil {
		return err
	}
	t, err := v.client.OpenTunnel(ctx, execclient.TunnelTarget{Port: insidePort, ProcessID: p.ID()})
	if err != nil {
		return err
	}
	defer t.Close()
	got, err := io.ReadAll(t)
	if err != nil {
		return err
	}
	return expect("what came", string(got), greeting)
}

// insidePort is the port on which a program in a sandbox listens.
const insidePort = 3000

// startGreeter starts a program that listens. In a sandbox it listens on insidePort, otherwise on any port.
func (v *visit) startGreeter(ctx context.Context, sandbox []byte) (p *execclient.Process, port uint16, err error) {
	address := "127.0.0.1:0"
	if sandbox != nil {
		address = fmt.Sprint("127.0.0.1:", insidePort)
	}
	p, err = v.client.Start(ctx, execproto.StartParams{
		ProcessID: v.id("greeter"), Argv: []string{v.Self(), "greet", address},
		Cwd: "file://" + v.dir, Env: commandEnv, Sandbox: sandbox,
	})
	if err != nil {
		return nil, 0, err
	}
	out := p.Stdout(ctx)
	defer out.Close()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		_, err = fmt.Sscanf(line, "listening on %d\n", &port)
	}
	return p, port, err
}

// endGreeter terminates the process. If that fails, the end of the session terminates it.
func (v *visit) endGreeter(p *execclient.Process) {
	if _, err := p.Terminate(context.Background()); err != nil {
		v.left = 0
	}
	p.Release()
}

// ports waits until the server reports a port on which a program listens.
func ports(ctx context.Context, v *visit) error {
	w, err := v.client.WatchPorts(ctx, execclient.PortOptions{})
	if err != nil {
		return err
	}
	defer w.Close()
	p, port, err := v.startGreeter(ctx, nil)
	if p != nil {
		defer v.endGreeter(p)
	}
	if err != nil {
		return err
	}
	for {
		told, err := w.Next(ctx)
		if err != nil {
			return err
		}
		for _, each := range told.Ports {
			if each.Port == port {
				return nil
			}
		}
	}
}

// proxied requests two hosts through its own network proxy: one that its policy allows, and one
// that it does not.
func proxied(ctx context.Context, v *visit) error {
	p, err := v.client.Start(ctx, execproto.StartParams{
		ProcessID: v.id("proxied"), Cwd: "file://" + v.dir, Env: commandEnv, Sandbox: v.sandbox(),
		Argv:                  []string{v.Self(), "fetch", v.outside.url + "/small", "http://denied.test/"},
		EnforceManagedNetwork: true,
		NetworkProxy: &execproto.NetworkProxyLaunch{Proxy: execproto.NetworkProxy{
			Enabled: true, Mode: execproto.NetworkFull, AllowLocalBinding: true,
			Domains: map[string]execproto.DomainPermission{"127.0.0.1": execproto.DomainAllow},
		}},
	})
	if err != nil {
		return err
	}
	defer p.Release()
	var out bytes.Buffer
	if _, err := p.Stream(ctx, &out, &out); err != nil {
		return err
	}
	return expect("answers", out.String(), "200 403 ")
}
