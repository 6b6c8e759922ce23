package execserver

import (
	"bytes"
	"context"
	"testing"
	"time"

	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/runner"
)

// TestStaleHelper: a helper that was started before what is denied was replaced gets the request, and
// its answer is not used. Nothing reads the request when ask has returned: its message is used again.
func TestStaleHelper(t *testing.T) {
	srv, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = srv.Shutdown(context.Background()) }()
	srv.secretPaths = []string{t.TempDir()}
	file := func() *fileIntent {
		root := permissions.Entry{Path: permissions.Path{Kind: permissions.Root}, Access: permissions.Read}
		profile := permissions.Profile{Kind: permissions.Managed, FileSystem: permissions.FileSystem{Entries: []permissions.Entry{root}}}
		return &fileIntent{srv: srv, draft: runner.Intent{Profile: profile, PolicyCwd: "/", CommandCwd: "/"}}
	}
	for name, stale := range map[string]bool{"stale": true, "the same": false} {
		// It answers at once, and a stale one never reads its input.
		then := "exec cat > /dev/null"
		if stale {
			then = "exec sleep 60"
		}
		child, err := srv.supervisor.StartChild(process.Spec{
			Argv: []string{"/bin/sh", "-c", `echo '{"status":"ok","payload":{"operation":"fs/readFile","response":{"dataBase64":""}}}'; ` + then}, Dir: "/",
		})
		if err != nil {
			t.Fatal(err)
		}
		f := file()
		asked, key := keyOf(&f.draft), fullKeyOf(file())
		if stale {
			key += "x"
		}
		h := &helper{srv: srv, child: child}
		h.stderrRead.Go(func() {})
		srv.helpers.idle = append(srv.helpers.idle, &idleHelper{helper: h, asked: asked, key: key, taken: make(chan struct{})})
		request := bytes.Repeat([]byte("x"), 4*pipeRoom)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		response, err := srv.helpers.ask(ctx, f, "fs/readFile", [][]byte{request})
		cancel()
		clear(request) // the race detector tells if something still reads it
		if used := err == nil && len(response) > 0; used == stale {
			t.Errorf("%s: %q, %v", name, response, err)
		}
		if len(srv.helpers.idle) > 0 {
			t.Errorf("%s: the helper is still there", name)
		}
	}
}
