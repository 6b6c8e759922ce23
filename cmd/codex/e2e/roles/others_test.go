package roles

import (
	"context"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

// TestSessionsOfOthers: a session and its processes belong to one token. Neither another token of
// the same principal nor one with a higher role can resume the session or reach its processes.
func TestSessionsOfOthers(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	w := newWorld(t, "auto", nil)
	owner := w.token("--role", "run", "--principal", "one")
	others := map[string]string{
		"same principal": w.token("--role", "run", "--principal", "one"), "same principal, read": w.token("--role", "read", "--principal", "one"),
		"capped": w.token("--role", "run", "--principal", "one", "--cwd", w.ws), "other": w.token("--role", "run"), "admin": w.token("--role", "admin"),
	}
	w.serve()
	c := w.client(owner)
	p, err := c.Start(t.Context(), w.params("p", nil, "echo said; exec sleep 1000"))
	harness.Must(t, err)
	for name, token := range others {
		_, err := execclient.DialWebSocket(t.Context(), w.url, execclient.Options{BearerToken: token, ResumeSessionID: c.SessionID(), ServerUser: w.user(), RecoveryTimeout: -1})
		if err == nil || !strings.Contains(err.Error(), "unknown session") {
			t.Errorf("%s resumes the session: %v", name, err)
		}
		other := w.client(token)
		var read execproto.ReadResult
		if err := other.Call(t.Context(), execproto.MethodProcessRead, &execproto.ReadParams{ProcessID: "p"}, &read); err == nil {
			t.Errorf("%s reads the output: %+v", name, read)
		}
		var ended execproto.TerminateResult
		if err := other.Call(t.Context(), execproto.MethodProcessTerminate, &execproto.ProcessParams{ProcessID: "p"}, &ended); err == nil && ended.Running {
			t.Errorf("%s ends the process", name)
		}
		if _, err := other.ListProcesses(t.Context(), execproto.ListParams{Scope: execproto.ListServer}); (err == nil) != (name == "admin") {
			t.Errorf("%s lists the processes of the server: %v", name, err)
		}
		if _, err := other.OpenTunnel(t.Context(), execclient.TunnelTarget{Port: 1, ProcessID: "p"}); err == nil {
			t.Errorf("%s reaches into the process", name)
		}
	}
	if ended, err := p.Terminate(t.Context()); err != nil || !ended {
		t.Errorf("afterwards the process had ended: %v", err)
	}
}

// detachedAttack is an operation on the detached process "job".
type detachedAttack struct {
	name string
	try  func(ctx context.Context, d *execclient.Detached) error
}

// detachedAttacks begin with operations that only read. The last two end the process and remove it.
var detachedAttacks = []detachedAttack{
	{"state", func(ctx context.Context, d *execclient.Detached) error { _, err := d.State(ctx); return err }},
	{"write", func(ctx context.Context, d *execclient.Detached) error { return d.Write(ctx, []byte("x\n")) }},
	{"signal", func(ctx context.Context, d *execclient.Detached) error { return d.Signal(ctx, execproto.SignalUSR1) }},
	{"terminate", func(ctx context.Context, d *execclient.Detached) error { _, err := d.Terminate(ctx); return err }},
	{"forget", func(ctx context.Context, d *execclient.Detached) error {
		if _, err := d.Wait(ctx); err != nil {
			return err
		}
		return d.Forget(ctx)
	}},
}

// TestDetachedOfOthers: a detached process belongs to its principal. The principal's tokens can use
// it as far as their role and ceiling permit. Other tokens cannot learn that it exists.
func TestDetachedOfOthers(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	w := newWorld(t, "auto", nil)
	one := func(args ...string) string { return w.token(append(args, "--principal", "one")...) }
	const unknown, role, ceilings = "unknown process id", "the role run", "other ceilings"
	tokens := []struct {
		name, token string
		want        [5]string // expected errors of detachedAttacks; "": the operation is permitted
	}{
		{"another", w.token("--role", "run"), [5]string{unknown, unknown, unknown, unknown, unknown}},
		{"another admin", w.token("--role", "admin"), [5]string{unknown, unknown, unknown, unknown, unknown}},
		{"another principal", w.token("--role", "run", "--principal", "two"), [5]string{unknown, unknown, unknown, unknown, unknown}},
		{"a principal named as the token", w.token("--role", "run", "--principal", "principal one"), [5]string{unknown, unknown, unknown, unknown, unknown}},
		{"read", one("--role", "read"), [5]string{"", role, role, role, ""}},
		{"capped", one("--role", "run", "--max-sandbox", "read-only"), [5]string{"", ceilings, "", "", ""}},
		{"same", one("--role", "run"), [5]string{}},
	}
	starter := one("--role", "run")
	w.serve()
	owner := w.client(starter)
	for _, tt := range tokens {
		params := w.params("job", nil, "trap : USR1; while :; do read x; done")
		params.PipeStdin = true
		// The process of the previous token may still exist.
		if _, err := owner.StartDetached(t.Context(), params); err != nil && !execproto.IsProcessExists(err) {
			t.Fatal(err)
		}
		c := w.client(tt.token)
		d := c.Detached("job")
		for i, a := range detachedAttacks {
			if tt.want[i] == "" && a.name == "forget" && tt.want[3] != "" {
				continue // this operation would wait for the end of the process
			}
			err := a.try(t.Context(), d)
			if (tt.want[i] == "") != (err == nil) || !strings.Contains(errorText(err), tt.want[i]) {
				t.Errorf("%s: %s: %v, want %q", tt.name, a.name, err, tt.want[i])
			}
		}
		list, err := c.ListDetached(t.Context())
		if sees := len(list) > 0; err != nil || sees != (tt.name == "read") {
			t.Errorf("%s sees %v, %v", tt.name, list, err)
		}
	}
}
