//go:build linux

package approval_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"codex.internal/pkg/approval"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execserver"
	"codex.internal/pkg/sandbox/permissions"
)

// dial returns a client of a server that cannot confine.
func dial(t *testing.T) *execclient.Client {
	t.Helper()
	srv, err := execserver.New(execserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(context.Background(), l) })
	client, err := execclient.DialWebSocket(t.Context(), "ws://"+l.Addr().String(), execclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		_ = srv.Shutdown(context.Background())
		serving.Wait()
	})
	return client
}

// unconfined is a profile that any server can enforce.
func unconfined() permissions.Profile {
	p := permissions.Profile{Kind: permissions.Disabled, Network: permissions.NetworkEnabled}
	p.FileSystem.Unrestricted = true
	return p
}

func TestCommands(t *testing.T) {
	client := dial(t)
	dir := t.TempDir()
	asked := 0
	answer := approval.Deny
	commands := &approval.Commands{
		Client: client, Dir: dir, Profile: unconfined(), Policy: approval.Policy{Kind: approval.Untrusted},
		Ask: func(_ context.Context, c *execclient.Cmd, _ approval.Question) (approval.Answer, error) {
			asked++
			if !strings.HasPrefix(c.String(), "sh -c") {
				t.Errorf("asked about %q", c)
			}
			return answer, nil
		},
	}
	run := func() (string, error) {
		var out bytes.Buffer
		cmd := client.Command("sh", "-c", "cat; pwd; exit 3")
		cmd.Stdin, cmd.Stdout = strings.NewReader("in "), &out
		err := commands.Run(t.Context(), cmd)
		return out.String(), err
	}
	if _, err := run(); !errors.Is(err, approval.ErrRejected) || asked != 1 {
		t.Errorf("denied: %v, asked %d times", err, asked)
	}
	answer = approval.ForSession
	for range 2 {
		out, err := run()
		var exit *execclient.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 3 || out != "in "+dir+"\n" {
			t.Errorf("approved: %q, %v", out, err)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times, want once more", asked)
	}
	commands.Ask = nil
	if err := commands.Run(t.Context(), client.Command("true")); !errors.Is(err, approval.ErrRejected) {
		t.Errorf("without a person to ask: %v", err)
	}
	commands.Policy = approval.Policy{}
	if err := commands.Run(t.Context(), client.Command("no-such-program")); err == nil || errors.Is(err, approval.ErrRejected) {
		t.Errorf("a program that does not exist: %v", err)
	}
}

// TestCommandsOfUnconfiningServers: a server that cannot confine does not run a command that
// must be confined.
func TestCommandsOfUnconfiningServers(t *testing.T) {
	client := dial(t)
	commands := &approval.Commands{Client: client, Dir: t.TempDir(), Profile: permissions.ReadOnly()}
	var refused *execclient.ServerError
	if err := commands.Run(t.Context(), client.Command("true")); !errors.As(err, &refused) {
		t.Errorf("got %v", err)
	}
}
