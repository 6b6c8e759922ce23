package tunnel

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/machine"
)

// sandboxed returns the sandbox object of a process that may write one directory.
func sandboxed(workspace string) []byte {
	return []byte(`{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[` +
		`{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},` +
		`{"path":{"type":"path","path":"file://` + workspace + `"},"access":"write"}]},"network":"restricted"}}`)
}

// TestInsidePath connects to Unix sockets in sandboxes. It reaches the command's own sockets, but
// not sockets outside to which the command has made a link.
func TestInsidePath(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	harness.EachBackend(t, []string{machine.Namespaces, machine.Bwrap}, func(t *testing.T, backend string) {
		_, url := harness.Server(t, "--sandbox-backend", backend)
		c := dial(t, url)
		workspace, outside := harness.Places(t)
		host, err := net.Listen("unix", filepath.Join(outside, "host"))
		harness.Must(t, err)
		defer host.Close()
		go func() {
			for {
				conn, err := host.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, "secret of the host")
				_ = conn.Close()
			}
		}()
		own := filepath.Join(workspace, "own")
		p := greeterIn(t, c, "a", own, workspace)
		for link, to := range map[string]string{"link": own, "bad": host.Addr().String(), "loop": "loop", "up": "../../../../../../" + own} {
			harness.Must(t, os.Symlink(to, filepath.Join(workspace, link)))
		}
		harness.Must(t, os.WriteFile(filepath.Join(workspace, "file"), nil, 0o600))
		for _, name := range []string{"own", "link", "up"} {
			tunnel, err := c.OpenTunnel(t.Context(), execclient.TunnelTarget{Path: filepath.Join(workspace, name), ProcessID: p.ID()})
			harness.Must(t, err)
			if text, err := io.ReadAll(tunnel); string(text) != "hello from "+own {
				t.Errorf("%s: got text %q, error %v; want text %q", name, text, err, "hello from "+own)
			}
		}
		for path, want := range map[string]execproto.TunnelFailure{
			filepath.Join(workspace, "bad"):    execproto.TunnelDenied,
			host.Addr().String():               execproto.TunnelDenied,
			filepath.Join(workspace, "loop"):   execproto.TunnelFailed,
			filepath.Join(workspace, "absent"): execproto.TunnelFailed,
			filepath.Join(workspace, "file"):   execproto.TunnelRefused,
			"/proc/self/root" + own:            execproto.TunnelFailed, // this is a magic link
		} {
			if got := failure(t, c, execclient.TunnelTarget{Path: path, ProcessID: p.ID()}); got != want {
				t.Errorf("%s: %s, want %s", path, got, want)
			}
		}
	})
}

// greeterIn starts greet in a sandbox that may write a workspace.
func greeterIn(t *testing.T, c *execclient.Client, id, address, workspace string) *execclient.Process {
	t.Helper()
	self, err := os.Executable()
	harness.Must(t, err)
	p, err := c.Start(t.Context(), execproto.StartParams{
		ProcessID: id, Argv: []string{self, "greet", address}, Cwd: "file://" + workspace, PipeStdin: true, Env: map[string]string{}, Sandbox: sandboxed(workspace),
	})
	harness.Must(t, err)
	t.Cleanup(func() {
		_, _ = p.Terminate(context.Background())
		p.Release()
	})
	if line, err := bufio.NewReader(p.Stdout(t.Context())).ReadString('\n'); line != "ready\n" {
		t.Fatalf("it says %q, %v", line, err)
	}
	return p
}

// TestForwardPath: -L leads to a Unix socket in the sandbox of a command.
func TestForwardPath(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	_, url := harness.Server(t)
	self, err := os.Executable()
	harness.Must(t, err)
	workspace, _ := harness.Places(t)
	path := filepath.Join(workspace, "s")
	cmd := exec.Command(harness.Codex, "remote", "run", "--url", url, "-L", "0:"+path, "--sandbox", "workspace-write", "--cwd", workspace, "--", self, "greet", path)
	in, err := cmd.StdinPipe()
	harness.Must(t, err)
	out, err := cmd.StdoutPipe()
	harness.Must(t, err)
	line := startLines(t, cmd).await(" leads to " + path)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("it says %q, %v", line, err)
	}
	if got := greeting(t, strings.Fields(line)[1]); got != "hello from "+path {
		t.Errorf("got %q, want %q", got, "hello from "+path)
	}
	harness.Must(t, in.Close())
	harness.Must(t, cmd.Wait())
}

// TestInsideDetached reaches a port and a socket in the sandbox of a detached process. It does so
// through two servers at a time, and after the server that started the process has ended.
func TestInsideDetached(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	retain := filepath.Join(t.TempDir(), "retain")
	first, url := harness.Server(t, "--retain-dir", retain)
	_, second := harness.Server(t, "--retain-dir", retain)
	workspace, _ := harness.Places(t)
	self, err := os.Executable()
	harness.Must(t, err)
	run := func(url, command string, args ...string) string {
		t.Helper()
		out, errs, code := harness.Run(t, "", append([]string{"remote", command, "--url", url}, args...)...)
		if code != 0 {
			t.Fatalf("%s %q: got exit code %d, stderr %s; want exit code 0", command, args, code, errs)
		}
		return out
	}
	path := filepath.Join(workspace, "s")
	script := fmt.Sprintf(`"$0" greet %s < /dev/zero & "$0" greet 127.0.0.1:3000 < /dev/zero`, path)
	run(url, "run", "--detach", "--name", "job", "--sandbox", "workspace-write", "--cwd", workspace, "--", "sh", "-c", script, self)
	t.Cleanup(func() { _, _, _ = harness.Run(t, "", "remote", "kill", "--url", second, "job") })
	harness.Eventually(t, "the sockets are ready", func() []string {
		if out := run(url, "logs", "job"); strings.Count(out, "ready") < 2 {
			return []string{out}
		}
		return nil
	})
	id := execproto.DetachedPrefix + "job"
	reach := func(c *execclient.Client) {
		t.Helper()
		greetedBy(t, c, execclient.TunnelTarget{Port: 3000, ProcessID: id})
		greetedBy(t, c, execclient.TunnelTarget{Path: path, ProcessID: id})
		if got := failure(t, c, execclient.TunnelTarget{Port: 3001, ProcessID: id}); got != execproto.TunnelRefused {
			t.Errorf("a port on which nothing listens: %s", got)
		}
	}
	c, d := dial(t, url), dial(t, second)
	reach(c)
	reach(d)
	_, said := forward(t, nil, 2, "--url", second, "forward", "--process", "job", "0:3000", "0:"+path)
	for i, want := range []string{"127.0.0.1:3000", path} {
		if got := greeting(t, strings.Fields(said[i])[0]); got != "hello from "+want {
			t.Errorf("got %q, want %q", got, "hello from "+want)
		}
	}
	_ = first.Process.Kill()
	reach(d)
	if _, err := d.OpenTunnel(t.Context(), execclient.TunnelTarget{Port: 3000, ProcessID: execproto.DetachedPrefix + "other"}); err == nil ||
		!strings.Contains(err.Error(), "unknown process") {
		t.Errorf("another process: %v", err)
	}
	run(second, "kill", "job")
	harness.Eventually(t, "the process ends", func() []string {
		if got := failure(t, d, execclient.TunnelTarget{Port: 3000, ProcessID: id}); got != execproto.TunnelEnded {
			return []string{string(got)}
		}
		return nil
	})
	for handle, want := range map[string]string{"job": "the process has ended", "nosuch": "you have no such detached process"} {
		if _, errs, code := harness.Run(t, "", "remote", "forward", "--url", second, "--process", handle, "0:3000"); code != 1 || !strings.Contains(errs, handle+": "+want) {
			t.Errorf("forward to %s: got exit code %d, %s; want exit code 1, %q", handle, code, errs, want)
		}
	}
	if _, errs, code := harness.Run(t, "", "remote", "forward", "--url", second, "--process", "job", "--auto"); code != 2 || !strings.Contains(errs, "--process") {
		t.Errorf("--process --auto: %d, %s", code, errs)
	}
}

// leave listens on a Unix socket, passes the socket on over standard output, which is also a
// socket, and exits, like a daemon that goes to the background.
func leave(path string) int {
	l, err := net.Listen("unix", path)
	if err != nil {
		return 1
	}
	f, err := l.(*net.UnixListener).File()
	if err == nil {
		err = syscall.Sendmsg(1, []byte{1}, syscall.UnixRights(int(f.Fd())), nil, 0)
	}
	if err != nil {
		return 1
	}
	return 0
}

// startDaemon runs leave, and returns the pid of its process, which has ended. From then on the test has the listening socket.
func startDaemon(t *testing.T, path string) int {
	t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	harness.Must(t, err)
	defer syscall.Close(pair[0])
	self, err := os.Executable()
	harness.Must(t, err)
	daemon := exec.Command(self, "leave", path)
	theirs := os.NewFile(uintptr(pair[1]), "socket")
	daemon.Stdout = theirs
	err = daemon.Run()
	_ = theirs.Close()
	harness.Must(t, err)
	oob := make([]byte, syscall.CmsgSpace(4))
	_, n, _, _, err := syscall.Recvmsg(pair[0], make([]byte, 1), oob, syscall.MSG_CMSG_CLOEXEC)
	harness.Must(t, err)
	messages, err := syscall.ParseSocketControlMessage(oob[:n])
	harness.Must(t, err)
	fds, err := syscall.ParseUnixRights(&messages[0])
	harness.Must(t, err)
	t.Cleanup(func() { _ = syscall.Close(fds[0]) })
	return daemon.Process.Pid
}

// TestInsidePathOfADaemon: a daemon's first process began to listen and has ended. A sandboxed
// command starts processes until one has the same pid. A tunnel must not treat the daemon's socket
// as a socket of the command.
func TestInsidePathOfADaemon(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	_, url := harness.Server(t)
	c := dial(t, url)
	workspace, outside := harness.Places(t)
	p, err := c.Start(t.Context(), execproto.StartParams{
		ProcessID: "a", Argv: []string{"/bin/sh", "-c", "while read go; do for i in 1 2 3 4 5 6 7 8; do sleep 60 & done; echo ready; done"},
		Cwd: "file://" + workspace, PipeStdin: true, Env: map[string]string{"PATH": os.Getenv("PATH")}, Sandbox: sandboxed(workspace),
	})
	harness.Must(t, err)
	defer p.Release()
	said := bufio.NewReader(p.Stdout(t.Context()))
	for try := range 25 {
		path := filepath.Join(outside, strconv.Itoa(try))
		pid := startDaemon(t, path)
		// The kernel assigns pids after the last one. Without this write, the command would have to
		// start some ten thousand processes.
		err = os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-3)), 0)
		testutil.Need(t, "permission to choose the next pid", err, fs.ErrPermission, fs.ErrNotExist, syscall.EROFS)
		_, err = p.Write(t.Context(), []byte("\n"))
		harness.Must(t, err)
		if line, err := said.ReadString('\n'); line != "ready\n" {
			t.Fatalf("it says %q, %v", line, err)
		}
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(name) != "sleep\n" {
			continue // another process has taken the pid
		}
		if got := failure(t, c, execclient.TunnelTarget{Path: path, ProcessID: p.ID()}); got != execproto.TunnelDenied {
			t.Errorf("%s, want %s", got, execproto.TunnelDenied)
		}
		return
	}
	t.Fatal("no process of the command got the pid of the daemon's first one")
}
