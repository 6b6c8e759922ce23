package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/testutil/machine"
)

const (
	leakRequests = 1000
	leakWorkers  = 8
	// leakKillAfter is the number of further requests that are answered before the server is killed
	// while it handles others.
	leakKillAfter = 60
)

// leaker sends sandboxed requests of all kinds.
type leaker struct {
	client  *execclient.Client
	ws      string
	sandbox json.RawMessage
	next    atomic.Int64
}

// request sends the next request and checks the answer.
func (l *leaker) request(ctx context.Context) error {
	n := l.next.Add(1)
	file := fmt.Sprintf("%s/out/%d", l.ws, n%leakWorkers)
	switch n % 3 {
	case 0:
		var r execproto.ReadFileResult
		err := l.client.Call(ctx, execproto.MethodFSReadFile, &execproto.LinkPathParams{Path: uri(l.ws + "/f"), Sandbox: l.sandbox}, &r)
		if err == nil && string(r.DataBase64) != "data" {
			err = fmt.Errorf("read %q", r.DataBase64)
		}
		return err
	case 1:
		return l.client.Call(ctx, execproto.MethodFSWriteFile, &execproto.WriteFileParams{
			Path: uri(file), DataBase64: execproto.Base64Text("d3JpdHRlbg=="), Sandbox: l.sandbox,
		}, nil)
	}
	id, after, wait := fmt.Sprint("p", n), uint64(0), uint64(1000)
	err := l.client.Call(ctx, execproto.MethodProcessStart, &execproto.StartParams{
		ProcessID: id, Cwd: uri(l.ws), Env: map[string]string{"PATH": "/usr/bin:/bin"}, Sandbox: l.sandbox,
		Argv: []string{"/bin/sh", "-c", "echo x > " + file + "; sh -c 'sleep 1000; :' " + l.ws + " & exec sleep 0.005"},
	}, nil)
	for err == nil {
		var r execproto.ReadResult
		err = l.client.Call(ctx, execproto.MethodProcessRead, &execproto.ReadParams{ProcessID: id, AfterSeq: &after, WaitMS: &wait}, &r)
		after = r.NextSeq - 1
		if r.Closed {
			if r.ExitCode == nil || *r.ExitCode != 0 {
				err = fmt.Errorf("%s ended with %+v", id, r)
			}
			break
		}
	}
	return err
}

// storm sends requests from several workers until done returns true, or one fails.
func (l *leaker) storm(ctx context.Context, done func(answered int64) bool) error {
	var answered atomic.Int64
	var first sync.Once
	var failed error
	var wg sync.WaitGroup
	for range leakWorkers {
		wg.Go(func() {
			for {
				if err := l.request(ctx); err != nil {
					first.Do(func() { failed = err })
					return
				}
				if done(answered.Add(1)) {
					return
				}
			}
		})
	}
	wg.Wait()
	return failed
}

// mentioning returns the processes whose command lines contain a word.
func mentioning(word string) []string {
	var found []string
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		if line, err := os.ReadFile(name); err == nil && strings.Contains(string(line), word) {
			found = append(found, name+": "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// children returns the children of all threads of a process.
func children(pid int) []string {
	var found []string
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, name := range names {
		text, _ := os.ReadFile(name)
		found = append(found, strings.Fields(string(text))...)
	}
	slices.Sort(found)
	return found
}

func descriptors(pid int) []string {
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	var found []string
	for _, name := range names {
		if to, err := os.Readlink(name); err == nil {
			found = append(found, to)
		}
	}
	slices.Sort(found)
	return found
}

// strays returns the unexpected files of a tree.
func strays(dir string, expected func(name string) bool) []string {
	var found []string
	_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if name := strings.TrimPrefix(path, dir); err == nil && name != "" && !expected(name) {
			if info, err := os.Lstat(path); err == nil {
				path = fmt.Sprintf("%s (%v, of %v)", path, info.Mode(), info.ModTime())
			}
			found = append(found, path)
		}
		return nil
	})
	return found
}

func mounts(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	harness.Must(t, err)
	return string(b)
}

// TestNothingLeaks: after a thousand sandboxed requests, and after the server was killed during
// further ones, no process and no file of any sandbox is left.
func TestNothingLeaks(t *testing.T) {
	harness.EachBackend(t, []string{machine.Namespaces, machine.Bwrap}, func(t *testing.T, backend string) {
		requests := int64(leakRequests)
		if testing.Short() || backend != machine.Namespaces {
			requests /= 5
		}
		leaks(t, backend, requests)
	})
}

func leaks(t *testing.T, backend string, requests int64) {
	before := mounts(t)
	ws, _ := workspace(t)
	temp := filepath.Join(filepath.Dir(ws), "tmp")
	harness.Must(t, os.Mkdir(temp, 0o755))
	harness.Must(t, os.Mkdir(ws+"/out", 0o755))
	cmd := exec.Command(harness.Codex, "exec-server", "--listen", "ws://127.0.0.1:0", "--sandbox-backend", backend)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	l := &leaker{client: serve(t, "", cmd), ws: ws, sandbox: sandboxOf(ws, "root=read", "project_roots=write", "tmpdir=write")}
	ctx, cancel := context.WithTimeout(context.Background(), 2*harness.Patience)
	defer cancel()
	expected := func(name string) bool {
		return name == "/f" || name == "/out" || strings.HasPrefix(name, "/out/") && len(name) == len("/out/0")
	}
	clean := func(when string) {
		t.Helper()
		harness.Eventually(t, "processes "+when, func() []string { return mentioning(ws) })
		harness.Eventually(t, "files in the workspace "+when, func() []string { return strays(ws, expected) })
		harness.Eventually(t, "temporary files "+when, func() []string { return strays(temp, func(string) bool { return false }) })
		if after := mounts(t); after != before {
			t.Errorf("mounts %s: before\n%s\nafter\n%s", when, before, after)
		}
	}

	// The first requests open descriptors that stay open.
	harness.Must(t, l.storm(ctx, func(n int64) bool { return n >= 3*leakWorkers }))
	clean("in the beginning")
	pid := cmd.Process.Pid
	var fds, kids []string
	settled := func() bool { // no request is in flight
		f, k := descriptors(pid), children(pid)
		same := slices.Equal(f, fds) && slices.Equal(k, kids)
		idle := 0
		for _, child := range k {
			if n, err := strconv.Atoi(child); err == nil && isIdleLauncher(n) {
				idle++
			}
		}
		same = same && idle == idleLaunchers
		fds, kids = f, k
		return same
	}
	harness.Eventually(t, "changes", func() []string {
		if settled() {
			return nil
		}
		return []string{"still changing"}
	})
	harness.Must(t, l.storm(ctx, func(n int64) bool { return n >= requests }))
	clean("after the requests")
	harness.Eventually(t, "descriptors of the server", func() []string {
		if now := descriptors(pid); len(now) > len(fds) {
			return append([]string{fmt.Sprintf("%d before, now:", len(fds))}, now...)
		}
		return nil
	})
	harness.Eventually(t, "children of the server", func() []string {
		if now := children(pid); len(now) > len(kids) {
			return now
		}
		return nil
	})

	var kill sync.Once
	err := l.storm(ctx, func(n int64) bool {
		if n >= leakKillAfter {
			kill.Do(func() { _ = cmd.Process.Kill() })
		}
		return false
	})
	if err == nil || ctx.Err() != nil {
		t.Fatalf("the server was not killed amid the requests: %v", err)
	}
	_ = cmd.Wait()
	clean("after the server was killed")
}
