package cli

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"hash"
	"strings"
	"sync"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

// detachedBytes is the amount of output that TestDetachedCuts follows, in bytes. To run a longer test by hand:
//
//	go test ./e2e/cli -run TestDetachedCuts -timeout 2h -args \
//	   -detached-bytes 8589934592 -detached-cuts 1000 -detached-restarts 20
var detachedBytes = flag.Int64("detached-bytes", 8<<20, "output of the process of TestDetachedCuts, in bytes")

// The disturbances of TestDetachedCuts. One happens after each part of the output.
var (
	detachedCuts     = flag.Int("detached-cuts", 100, "cuts of the connection in TestDetachedCuts")
	detachedRestarts = flag.Int("detached-restarts", 4, "killed servers in TestDetachedCuts")
)

// TestDetachedCuts follows the numbered output of a detached process while the connection is cut
// and servers are killed. The client must get every byte exactly once.
func TestDetachedCuts(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	d := newDetaching(t)
	lines := *detachedBytes / 16
	d.must("run", "--detach", "--name", "numbers", "--retain-bytes", "4194304", "--when-full", "wait", "--",
		"seq", "-f", "%015.0f", "1", fmt.Sprint(lines))
	want := sha256.New()
	for i := int64(1); i <= lines; i++ {
		fmt.Fprintf(want, "%015d\n", i)
	}
	cutter, url := harness.ThroughProxy(t, d.url)
	f := &cutFollower{t: t, d: d, url: url, sum: sha256.New(), cut: cutter.Cut, lead: cutter.SetTarget, size: lines * 16}
	f.follow()
	if got := f.sum.Sum(nil); string(got) != string(want.Sum(nil)) || f.bytes != lines*16 {
		t.Errorf("%d bytes, want %d; equal: %v", f.bytes, lines*16, string(got) == string(want.Sum(nil)))
	}
	if f.cuts < *detachedCuts || f.restarts < *detachedRestarts {
		t.Errorf("%d cuts and %d restarts", f.cuts, f.restarts)
	}
}

// cutFollower follows a process over clients whose connections are lost.
type cutFollower struct {
	t        *testing.T
	d        *detaching
	url      string
	cut      func()
	lead     func(target string)
	sum      hash.Hash
	size     int64
	bytes    int64
	after    uint64
	cuts     int
	restarts int
}

// follow reads to the end.
func (f *cutFollower) follow() {
	for {
		client, err := execclient.DialWebSocket(f.t.Context(), f.url, execclient.Options{})
		harness.Must(f.t, err)
		over, err := f.part(client)
		_ = client.Close()
		switch {
		case over:
			return
		case err != nil && !errors.Is(err, execclient.ErrClosed) && !strings.Contains(err.Error(), "unknown session"):
			f.t.Fatal(err)
		}
	}
}

// part reads with one client, until the process has closed or the client's session is lost.
func (f *cutFollower) part(client *execclient.Client) (over bool, err error) {
	o := execclient.FollowOptions{After: f.after, Wait: true, Consume: true}
	for r, err := range client.Detached("numbers").Follow(f.t.Context(), o) {
		if err != nil {
			return false, err
		}
		if r.Dropped != nil {
			f.t.Fatalf("dropped %v", *r.Dropped)
		}
		for _, c := range r.Chunks {
			f.after = c.Seq
			f.bytes += int64(len(c.Chunk))
			_, _ = f.sum.Write(c.Chunk)
		}
		if r.Closed && len(r.Chunks) == 0 {
			return true, nil
		}
		f.disturb()
	}
	return false, errors.New("the output ended")
}

// disturb cuts the connection, or kills the server, as often as is due at the present position.
func (f *cutFollower) disturb() {
	for f.cuts < *detachedCuts && f.bytes >= f.size*int64(f.cuts)/int64(*detachedCuts) {
		f.cuts++
		f.cut()
	}
	if f.restarts < *detachedRestarts && f.bytes >= f.size*int64(f.restarts+1)/int64(*detachedRestarts+2) {
		f.restarts++
		f.d.end(syscall.SIGKILL)
		f.d.start()
		f.lead(harness.Address(f.d.url))
	}
}

// TestDetachedFollowers: two clients follow a process that a third one writes to. A fourth client
// may not write meanwhile.
func TestDetachedFollowers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	d := newDetaching(t)
	d.must("run", "--detach", "--name", "echo", "--stdin", "--", "cat")
	dial := func() *execclient.Detached {
		client, err := execclient.DialWebSocket(t.Context(), d.url, execclient.Options{})
		harness.Must(t, err)
		t.Cleanup(func() { _ = client.Close() })
		return client.Detached("echo")
	}
	writer, other := dial(), dial()
	texts := make([]strings.Builder, 2)
	var wg sync.WaitGroup
	for i := range texts {
		follower := dial()
		wg.Go(func() {
			for r, err := range follower.Follow(t.Context(), execclient.FollowOptions{Wait: true}) {
				if err != nil {
					t.Error(err)
					return
				}
				for _, c := range r.Chunks {
					texts[i].Write(c.Chunk)
				}
			}
		})
	}
	var want strings.Builder
	for i := range 100 {
		line := fmt.Sprintf("line %d\n", i)
		want.WriteString(line)
		harness.Must(t, writer.Write(t.Context(), []byte(line)))
		if i == 50 {
			err := other.Write(t.Context(), []byte("from another\n"))
			if !execclient.IsCode(err, execproto.CodeInvalidRequest) || !strings.Contains(err.Error(), "another client") {
				t.Errorf("a second writer: %v", err)
			}
		}
	}
	harness.Must(t, writer.CloseStdin(t.Context()))
	wg.Wait()
	for i := range texts {
		if texts[i].String() != want.String() {
			t.Errorf("follower %d: %d bytes, want %d", i, texts[i].Len(), want.Len())
		}
	}
}

// TestAttach uses a detached shell at a terminal, leaves it, and attaches again.
func TestAttach(t *testing.T) {
	t.Parallel()
	d := newDetaching(t)
	d.must("run", "--detach", "--tty", "--name", "sh", "--", "sh", "-c", "PS1='> ' exec sh -i")
	user := harness.AtTerminal(t, "remote", "attach", "--url", d.url, "--all", "sh")
	user.Expect("> ")
	user.Types("x=kept; echo fir''st\r")
	user.Expect("first")
	user.Types("\x10\x11")
	user.Expect("left sh")
	if _, code := user.End(); code != 0 {
		t.Errorf("after leaving: exit code %d", code)
	}
	d.end(syscall.SIGKILL)
	d.start()
	user = harness.AtTerminal(t, "remote", "attach", "--url", d.url, "--all", "sh")
	user.Expect("first") // keys that are typed before the terminal is in raw mode are lost
	user.Types("echo $x''again\r")
	user.Expect("keptagain")
	user.Types("exit 6\r")
	if _, code := user.End(); code != 6 {
		t.Errorf("after exit 6: exit code %d", code)
	}
}
