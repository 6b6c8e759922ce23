package soak

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

// commandEnv is the environment of commands.
var commandEnv = map[string]string{"PATH": "/usr/bin:/bin", "TERM": "dumb"}

func plainCommand(ctx context.Context, v *visit) error {
	cmd := v.client.CommandContext(ctx, "sh", "-c", `echo "$0"; exit 3`, v.dir)
	out, err := cmd.Output()
	var exit *execclient.ExitError
	if !errors.As(err, &exit) || exit.Code != 3 {
		return fmt.Errorf("it did not end with 3: %w", err)
	}
	return expect("output", string(out), v.dir+"\n")
}

// sandboxedCommand writes to a permitted path, and checks that it cannot write elsewhere.
func sandboxedCommand(ctx context.Context, v *visit) error {
	const script = `echo x > "$0/in" || exit 4
if echo x 2>/dev/null > "$1/out"; then exit 5; fi
sh -c 'sleep 100000; :' "$0" > /dev/null 2>&1 &
echo confined`
	cmd := v.client.CommandContext(ctx, "sh", "-c", script, v.dir, filepath.Join(v.Dir, "beside"))
	cmd.Sandbox, cmd.Dir = v.sandbox(), v.dir
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	return expect("output", string(out), "confined\n")
}

func readOnlyCommand(ctx context.Context, v *visit) error {
	cmd := v.client.CommandContext(ctx, "sh", "-c", `cat "$1" && ! touch "$0/f" 2>/dev/null`, v.dir, "/etc/hostname")
	cmd.Sandbox = execclient.ReadOnlySandbox()
	return cmd.Run()
}

// inputAndOutput makes cat echo its input.
func inputAndOutput(ctx context.Context, v *visit) error {
	data := make([]byte, 1+v.rng.IntN(200_000))
	for i := range data {
		data[i] = byte('a' + v.rng.IntN(26))
	}
	cmd := v.client.CommandContext(ctx, "cat")
	cmd.Stdin = bytes.NewReader(data)
	if v.rng.IntN(2) == 0 {
		cmd.Sandbox = v.sandbox()
	}
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	if !bytes.Equal(out, data) {
		return fmt.Errorf("%d bytes in, %d out, or others", len(data), len(out))
	}
	return nil
}

// muchOutput prints more output than the server retains.
func muchOutput(ctx context.Context, v *visit) error {
	const size = 3 << 20
	out, err := v.client.CommandContext(ctx, "head", "-c", fmt.Sprint(size), "/dev/zero").Output()
	if err != nil {
		return err
	}
	return expect("bytes of output", len(out), size)
}

// terminal types into a shell, changes the size of its terminal and interrupts it.
func terminal(ctx context.Context, v *visit) error {
	p, err := v.client.Start(ctx, execproto.StartParams{
		ProcessID: v.id("terminal"), Argv: []string{"cat"}, Cwd: "file://" + v.dir, Env: commandEnv, TTY: true,
		Size: &execproto.TerminalSize{Rows: 24, Cols: 80},
	})
	if err != nil {
		return err
	}
	defer p.Release()
	err = typeAt(ctx, p)
	// If the interrupt was lost, the shell still runs.
	_, ended := p.Terminate(ctx)
	return errors.Join(err, ended)
}

func typeAt(ctx context.Context, p *execclient.Process) error {
	if err := p.Resize(ctx, 40, 132); err != nil {
		return err
	}
	if status, err := p.Write(ctx, []byte("hello\n")); err != nil || status != execproto.WriteAccepted {
		return fmt.Errorf("write: %s, %w", status, err)
	}
	out := p.Stdout(ctx)
	defer out.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != "hello" {
		return fmt.Errorf("read: %q, %w", line, err)
	}
	if err := p.Signal(ctx, execproto.SignalInterrupt); err != nil {
		return err
	}
	state, err := p.WaitClosed(ctx)
	if err != nil {
		return err
	}
	return expect("exit code", state.Code, 130)
}

// descendants starts processes that continue to run, and terminates all of them.
func descendants(ctx context.Context, v *visit) error {
	p, err := startBackground(ctx, v)
	if err != nil {
		return err
	}
	defer p.Release()
	_, err = p.Terminate(ctx)
	if err != nil {
		return err
	}
	state, err := p.WaitClosed(ctx)
	if err != nil {
		return err
	}
	return expect("exit code", state.Code, 137)
}

// leftToTheSession starts such processes. The end of the session must end them.
func leftToTheSession(ctx context.Context, v *visit) error {
	p, err := startBackground(ctx, v)
	if err == nil {
		p.Release()
		v.leave()
	}
	return err
}

// startBackground starts a shell that waits for processes in the background, one of which
// has left its process group and session.
func startBackground(ctx context.Context, v *visit) (*execclient.Process, error) {
	params := execproto.StartParams{
		ProcessID: v.id("background"), Cwd: "file://" + v.ws, Env: commandEnv,
		Argv: []string{"sh", "-c", `sleep 100000 & setsid sh -c 'sleep 100001; :' "$0" & sh -c 'sleep 100002; :' "$0" & wait`, v.dir},
	}
	if v.rng.IntN(2) == 0 {
		params.Sandbox = v.sandbox()
	}
	return v.client.Start(ctx, params)
}

// longPoll reads in the same way as Codex CLI: with process/read, which waits.
func longPoll(ctx context.Context, v *visit) error {
	p, err := v.client.Start(ctx, execproto.StartParams{
		ProcessID: v.id("poll"), Cwd: "file://" + v.dir, Env: commandEnv, Sandbox: v.sandbox(),
		Argv: []string{"sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.1; done"},
	})
	if err != nil {
		return err
	}
	defer p.Release()
	after, wait, text := uint64(0), uint64(2000), ""
	for {
		r, err := p.Read(ctx, execproto.ReadParams{ProcessID: p.ID(), AfterSeq: &after, WaitMS: &wait, Details: true})
		if err != nil {
			return err
		}
		for _, c := range r.Chunks {
			text += string(c.Chunk)
		}
		after = r.NextSeq - 1
		if r.Closed {
			return expect("output", text, "1\n2\n3\n")
		}
	}
}

// limits starts a process that exceeds its time limit.
func limits(ctx context.Context, v *visit) error {
	p, err := v.client.Start(ctx, execproto.StartParams{
		ProcessID: v.id("limited"), Argv: []string{"sh", "-c", "sleep 1000 & wait"}, Cwd: "file://" + v.dir, Env: commandEnv,
		Limits: &execproto.ProcessLimits{WallMS: 200, OpenFiles: 64, OutputBytes: 1 << 20},
	})
	if err != nil {
		return err
	}
	defer p.Release()
	state, err := p.WaitClosed(ctx)
	if err != nil {
		return err
	}
	return expect("cause", state.Cause, execproto.CauseTimeout)
}

// loginShell uses the snapshot of a shell's start-up files.
func loginShell(ctx context.Context, v *visit) error {
	p, err := v.client.Start(ctx, execproto.StartParams{
		ProcessID: v.id("login"), Argv: []string{"/bin/bash", "-lc", "echo ready"}, Cwd: "file://" + v.Dir, Env: commandEnv,
		Sandbox:       v.sandbox(),
		ShellSnapshot: &execproto.ShellSnapshot{ScopeID: "soak", Shell: execproto.SnapshotShell{Name: "bash", Path: "/bin/bash"}},
	})
	if err != nil {
		return err
	}
	defer p.Release()
	out, err := io.ReadAll(p.Stdout(ctx))
	if err != nil {
		return err
	}
	return expect("output", string(out), "ready\n")
}

// detached starts a process that outlives sessions, writes to it, reads its output, and
// forgets it. If a connection is lost in between, tidy of soak ends it.
func detached(ctx context.Context, v *visit) error {
	d, err := v.client.StartDetached(ctx, execproto.StartParams{
		ProcessID: v.id("detached"), Argv: []string{"cat"}, Cwd: "file://" + v.Dir, Env: commandEnv, PipeStdin: true, Sandbox: v.sandbox(),
	})
	if err != nil {
		return err
	}
	if err := v.converse(ctx, d); err != nil {
		_, ended := d.Terminate(ctx)
		_, closed := d.Wait(ctx)
		return errors.Join(err, ended, closed, d.Forget(ctx))
	}
	if v.rng.IntN(4) == 0 {
		v.leave() // the next part uses another session
		if err := v.join(ctx); err != nil {
			return err
		}
		d = v.client.Detached(d.Handle())
	}
	if _, err := v.client.ListDetached(ctx); err != nil {
		return err
	}
	return d.Forget(ctx)
}

func (v *visit) converse(ctx context.Context, d *execclient.Detached) error {
	if err := d.Write(ctx, []byte("hello\n")); err != nil {
		return err
	}
	if err := d.CloseStdin(ctx); err != nil {
		return err
	}
	text := ""
	for r, err := range d.Follow(ctx, execclient.FollowOptions{Wait: true, Consume: true}) {
		if err != nil {
			return err
		}
		for _, c := range r.Chunks {
			text += string(c.Chunk)
		}
	}
	return expect("output", text, "hello\n")
}

// refusals makes requests that fail. They must leave no resources either.
func refusals(ctx context.Context, v *visit) error {
	if err := v.client.Call(ctx, "no/such/method", nil, nil); !execclient.IsCode(err, execproto.CodeMethodNotFound) {
		return fmt.Errorf("an unknown method: %w", err)
	}
	if _, err := v.client.FS().ReadFile(ctx, v.dir+"/missing"); !isServerError(err) {
		return fmt.Errorf("a missing file: %w", err)
	}
	if err := v.client.FS().WithSandbox(execclient.ReadOnlySandbox()).WriteFile(ctx, v.dir+"/f", []byte("x")); !isServerError(err) {
		return fmt.Errorf("a write that is not permitted: %w", err)
	}
	_, err := v.client.Start(ctx, execproto.StartParams{
		ProcessID: v.id("missing"), Argv: []string{v.dir + "/missing"}, Cwd: "file://" + v.dir, Env: commandEnv,
	})
	if !isServerError(err) {
		return fmt.Errorf("a missing program: %w", err)
	}
	cmd := v.client.CommandContext(ctx, v.dir+"/missing")
	cmd.Sandbox, cmd.Dir = v.sandbox(), v.dir
	if err := cmd.Run(); err == nil {
		return errors.New("a missing program ran in a sandbox")
	} else if isLoss(err) {
		return err
	}
	return nil
}

// isServerError reports whether the error is a response of the server.
func isServerError(err error) bool {
	var e *execclient.ServerError
	return errors.As(err, &e)
}
