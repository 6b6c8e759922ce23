package sandbox

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/sandbox/plan"
	"codex.internal/pkg/testutil/machine"
	"golang.org/x/sys/unix"
)

// A hardened container does not permit creating namespaces and mounts. The tests simulate one by a
// process that installs the restrictions and then executes a program.

// containerVariable makes this test program act as a container. Its value is the kind of the
// container, and the arguments are the command.
const containerVariable = "CODEX_E2E_CONTAINER"

// The kinds of containers.
const (
	filtered = "seccomp"    // a filter refuses the system calls
	limited  = "namespaces" // a nested user namespace in which no further ones can be created
)

func init() {
	kind := os.Getenv(containerVariable)
	if kind == "" {
		return
	}
	// The restrictions apply to this thread, and to the program that it executes.
	runtime.LockOSThread()
	var err error
	switch kind {
	case filtered:
		err = installContainerFilter()
	case limited:
		err = os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	}
	if err == nil {
		_ = os.Unsetenv(containerVariable)
		err = syscall.Exec(os.Args[1], os.Args[2:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "make a container:", err)
	os.Exit(99)
}

// installContainerFilter installs a filter that refuses the system calls which the default filters
// of container engines refuse.
func installContainerFilter() error {
	const (
		deny  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		noSys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		bits  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K

		namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
			unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
		arg0 = 16 // the offset of the first argument in struct seccomp_data
	)
	code := []unix.SockFilter{{Code: load}}
	for _, nr := range []uint32{
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT,
		unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT,
		unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_CHROOT,
	} {
		code = append(code, unix.SockFilter{Code: equal, K: nr, Jf: 1}, unix.SockFilter{Code: ret, K: deny})
	}
	code = append(code,
		unix.SockFilter{Code: equal, K: unix.SYS_CLONE3, Jf: 1}, unix.SockFilter{Code: ret, K: noSys},
		unix.SockFilter{Code: equal, K: unix.SYS_CLONE, Jf: 3},
		unix.SockFilter{Code: load, K: arg0},
		unix.SockFilter{Code: bits, K: namespaces, Jf: 1}, unix.SockFilter{Code: ret, K: deny},
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return errno
	}
	return nil
}

// contained returns a command that runs a program in a container.
func contained(kind, program string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", append([]string{program}, args...)...)
	cmd.Env = append(os.Environ(), containerVariable+"="+kind)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if kind == limited {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return cmd
}

// serve starts an exec-server and connects to it. If the server requires a token, the client uses token.
func serve(t *testing.T, token string, cmd *exec.Cmd) *execclient.Client {
	t.Helper()
	out, err := cmd.StdoutPipe()
	harness.Must(t, err)
	harness.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server did not start: %q, %v", line, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	client, err := execclient.DialWebSocket(ctx, strings.TrimSpace(line), execclient.Options{BearerToken: token})
	harness.Must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// outcome is the result of a process.
type outcome struct {
	execproto.ReadResult
	kind string // the reported sandboxType
	text string
	code int
}

// runSandboxed runs a shell script under a sandbox.
func runSandboxed(t *testing.T, c *execclient.Client, id, cwd, script string, sandbox json.RawMessage) (e outcome, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	var started execproto.StartResult
	err = c.Call(ctx, execproto.MethodProcessStart, &execproto.StartParams{
		ProcessID: id, Argv: []string{"/bin/sh", "-c", script}, Cwd: uri(cwd), Env: map[string]string{"PATH": "/usr/bin:/bin"}, Sandbox: sandbox,
	}, &started)
	if err != nil {
		return e, err
	}
	e.kind = started.SandboxType
	after, wait := uint64(0), uint64(1000)
	for !e.Closed {
		e.ReadResult = execproto.ReadResult{}
		if err := c.Call(ctx, execproto.MethodProcessRead, &execproto.ReadParams{ProcessID: id, AfterSeq: &after, WaitMS: &wait}, &e.ReadResult); err != nil {
			return e, err
		}
		for _, chunk := range e.Chunks {
			e.text += string(chunk.Chunk)
		}
		after = e.NextSeq - 1
	}
	e.code = -1
	if e.ExitCode != nil {
		e.code = *e.ExitCode
	}
	return e, nil
}

// sandboxOf returns a sandbox with entries of the form TARGET=ACCESS.
func sandboxOf(cwd string, list ...string) json.RawMessage {
	var entries []object
	for _, e := range list {
		i := strings.LastIndexByte(e, '=')
		entry := special
		if e[0] == '/' {
			entry = at
		}
		entries = append(entries, entry(e[:i], e[i+1:]))
	}
	b, _ := json.Marshal(with(managed(entries...),
		"cwd", uri(cwd), "workspaceRoots", []string{uri(cwd)}, "windowsSandboxLevel", "disabled",
		"windowsSandboxPrivateDesktop", false, "useLegacyLandlock", false))
	return b
}

// workspace creates a directory with a file, and a secret beside the directory. It is not below
// /tmp, because some policies make that writable.
func workspace(t *testing.T) (ws, secret string) {
	t.Helper()
	top := "/var/tmp"
	if unix.Access(top, unix.W_OK) != nil {
		top = os.TempDir()
	}
	dir, err := os.MkdirTemp(top, "e2e")
	harness.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ws, secret = filepath.Join(dir, "ws"), filepath.Join(dir, "secret")
	harness.Must(t, os.Mkdir(ws, 0o755))
	harness.Must(t, os.WriteFile(filepath.Join(ws, "f"), []byte("data"), 0o644))
	harness.Must(t, os.WriteFile(secret, []byte("key"), 0o600))
	return ws, secret
}

// probed returns the launcher's report about a container.
func probed(t *testing.T, kind string) map[string]string {
	t.Helper()
	if kind == limited {
		machine.NeedUserNamespaces(t)
		machine.NeedSettings(t)
	}
	out, err := contained(kind, harness.Codex, "codex-linux-sandbox", "--probe").Output()
	harness.Must(t, err)
	var probe struct {
		Backends []struct {
			Name   string
			Works  bool
			Reason string
		}
	}
	harness.Must(t, json.Unmarshal(out, &probe))
	reasons := make(map[string]string)
	for _, b := range probe.Backends {
		if !b.Works {
			reasons[b.Name] = b.Reason
		}
	}
	return reasons
}

// confinedStatus is a shell condition that is true if the process is confined.
const confinedStatus = `grep -q 'NoNewPrivs:.1' /proc/self/status && grep -q 'Seccomp:.2' /proc/self/status`

// TestHardenedContainer: no namespaces can be made. Policies that Landlock and the broker can enforce work. All others are
// refused before the command runs.
func TestHardenedContainer(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{filtered, limited} {
		t.Run(kind, func(t *testing.T) {
			reasons := probed(t, kind)
			for _, name := range []string{"namespaces", "bwrap"} {
				if reasons[name] == "" {
					t.Errorf("%s works in the container: nothing is tested", name)
				}
			}
			machine.NeedLandlock(t, plan.LandlockABI)
			if reason := reasons["landlock"]; reason != "" {
				t.Fatalf(`got %v, want ""`, reason)
			}
			// The client is not in the container, so the server cannot inspect it.
			token := strings.Repeat("0123456789abcdef", 4)
			client := serve(t, token, contained(kind, harness.Codex, harness.Codex, "exec-server", "--listen", "ws://127.0.0.1:0",
				"--ws-auth", "capability-token", "--ws-token-sha256", fmt.Sprintf("%x", sha256.Sum256([]byte(token)))))
			t.Run("processes", func(t *testing.T) { containerProcesses(t, client) })
			t.Run("files", func(t *testing.T) { containerFiles(t, client) })
			t.Run("workspace", func(t *testing.T) { containerWorkspace(t, client) })
			t.Run("refusals", func(t *testing.T) { containerRefusals(t, client) })
		})
	}
}

func containerProcesses(t *testing.T, client *execclient.Client) {
	ws, secret := workspace(t)
	readOnly := sandboxOf(ws, "root=read")
	e, err := runSandboxed(t, client, "reads", ws, confinedStatus+" && cat f", readOnly)
	if err != nil || e.code != 0 || e.text != "data" || e.kind != "linuxSeccomp" || e.SandboxDenied {
		t.Errorf("a read-only process: %+v, %v", e, err)
	}
	e, err = runSandboxed(t, client, "writes", ws, "echo x > f", readOnly)
	if err != nil || e.code == 0 || !e.SandboxDenied {
		t.Errorf("a write: %+v, %v", e, err)
	}
	if b, _ := os.ReadFile(ws + "/f"); string(b) != "data" {
		t.Errorf("the file is %q", b)
	}
	// Restricted reads: the secret is not readable, but the file beside it is. Output and errors
	// arrive over two pipes, in any order.
	e, err = runSandboxed(t, client, "hides", ws, "cat f; cat "+secret, sandboxOf(ws, "minimal=read", ws+"=read"))
	if err != nil || e.code == 0 || !strings.Contains(e.text, "data") || strings.Contains(e.text, "key") || !e.SandboxDenied {
		t.Errorf("restricted reads: %+v, %v", e, err)
	}
	// Use a writable root in which no path must be protected.
	open := sandboxOf(ws, "root=read", ws+"=write", ws+"/.git=write", ws+"/.agents=write", ws+"/.codex=write")
	e, err = runSandboxed(t, client, "opens", ws, "echo y > f && mkdir -p a/b && mv f a/b/g && echo x > "+secret, open)
	if b, _ := os.ReadFile(ws + "/a/b/g"); err != nil || e.code == 0 || string(b) != "y\n" || !e.SandboxDenied {
		t.Errorf("a writable root: %q, %+v, %v", b, e, err)
	}
	if b, _ := os.ReadFile(secret); string(b) != "key" {
		t.Errorf("the secret is %q", b)
	}
	// The command cannot signal a process outside, and has no network.
	e, err = runSandboxed(t, client, "signals", ws, fmt.Sprintf("kill -0 %d", os.Getpid()), readOnly)
	if err != nil || e.code == 0 {
		t.Errorf("a signal: %+v, %v", e, err)
	}
}

func containerFiles(t *testing.T, client *execclient.Client) {
	ws, secret := workspace(t)
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	narrow := sandboxOf(ws, ws+"=read")
	read := func(path string, sandbox json.RawMessage) (string, error) {
		var r execproto.ReadFileResult
		err := client.Call(ctx, execproto.MethodFSReadFile, &execproto.LinkPathParams{Path: uri(path), Sandbox: sandbox}, &r)
		return string(r.DataBase64), err
	}
	if text, err := read(ws+"/f", narrow); err != nil || text != "data" {
		t.Errorf("fs/readFile: %q, %v", text, err)
	}
	if text, err := read(secret, nil); err != nil || text != "key" {
		t.Errorf("without a sandbox: %q, %v", text, err)
	}
	if text, err := read(secret, narrow); err == nil || text != "" {
		t.Errorf("fs/readFile read the secret: %q", text)
	}
	harness.Must(t, os.Symlink(secret, ws+"/link"))
	if text, err := read(ws+"/link", narrow); err == nil || text != "" {
		t.Errorf("fs/readFile read the secret through a link: %q", text)
	}
	err := client.Call(ctx, execproto.MethodFSWriteFile, &execproto.WriteFileParams{
		Path: uri(ws + "/f"), DataBase64: execproto.Base64Text("ZXZpbA=="), Sandbox: sandboxOf(ws, "root=read"),
	}, nil)
	if b, _ := os.ReadFile(ws + "/f"); err == nil || string(b) != "data" {
		t.Errorf("fs/writeFile: %q, %v", b, err)
	}
}

// containerWorkspace checks that a command writes to its workspace, and that what is protected there stays, by the backend broker.
func containerWorkspace(t *testing.T, client *execclient.Client) {
	for name, make := range map[string]func(ws string) json.RawMessage{
		"the default policy": func(ws string) json.RawMessage { return sandboxOf(ws, "root=read", "project_roots=write") },
		"a read-only directory": func(ws string) json.RawMessage {
			return sandboxOf(ws, "root=read", ws+"=write", ws+"/.git=read", ws+"/.codex=read", ws+"/.agents=write")
		},
		"a path that must not appear": func(ws string) json.RawMessage {
			return sandboxOf(ws, "root=read", ws+"=write", ws+"/no/such=read")
		},
		"restricted reads": func(ws string) json.RawMessage { return sandboxOf(ws, "minimal=read", ws+"=write") },
	} {
		t.Run(name, func(t *testing.T) {
			ws, secret := workspace(t)
			harness.Must(t, os.MkdirAll(ws+"/.git/hooks", 0o755))
			script := "echo x > made && mkdir d && mv made d && chmod 600 d/made || exit 9; touch .git/hooks/a; mkdir .codex; mv .git x; echo x > " + secret
			if name == "a path that must not appear" {
				script += "; mkdir no"
			}
			e, err := runSandboxed(t, client, "workspace "+name, ws, script, make(ws))
			if err != nil || e.code == 0 || e.code == 9 {
				t.Errorf("got %+v, %v; want exit code 1, of the last command", e, err)
			}
			if b, err := os.ReadFile(ws + "/d/made"); string(b) != "x\n" {
				t.Errorf("the new file: got %q, %v, want %q", b, err, "x\n")
			}
			for _, at := range []string{"/.git/hooks/a", "/.codex", "/x", "/no"} {
				if _, err := os.Lstat(ws + at); err == nil {
					t.Errorf("%s was made", at)
				}
			}
			if b, _ := os.ReadFile(secret); string(b) != "key" {
				t.Errorf("the secret: got %q, want %q", b, "key")
			}
		})
	}
}

// containerRefusals checks that a command does not run if no backend can enforce its policy, and
// that the error names the path.
func containerRefusals(t *testing.T, client *execclient.Client) {
	for name, make := range map[string]func(ws, secret string) (path string, sandbox json.RawMessage){
		"a denied file": func(ws, secret string) (string, json.RawMessage) {
			return secret, sandboxOf(ws, "root=read", secret+"=deny")
		},
		"a denied file below a writable directory": func(ws, _ string) (string, json.RawMessage) {
			return ws + "/f", sandboxOf(ws, "root=read", "project_roots=write", ws+"/f=deny")
		},
	} {
		t.Run(name, func(t *testing.T) {
			ws, secret := workspace(t)
			path, sandbox := make(ws, secret)
			marker := ws + "/ran"
			id := "refused " + name
			e, err := runSandboxed(t, client, id, ws, "echo ran; echo x > "+marker+"; cat "+secret, sandbox)
			text := e.text + fmt.Sprint(err)
			if err == nil && e.code == 0 {
				t.Errorf("it ended well: %+v", e)
			}
			if _, err := os.Lstat(marker); err == nil || strings.Contains(e.text, "ran\n") || strings.Contains(e.text, "key") {
				t.Errorf("it ran: %+v", e)
			}
			if !strings.Contains(text, path) {
				t.Errorf("the error does not name %s: %s", path, text)
			}
			t.Logf("%s", strings.TrimSpace(text))
			// A file system request that would change a file is refused in the same way. One that
			// reads is confined or refused.
			ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
			defer cancel()
			err = client.Call(ctx, execproto.MethodFSWriteFile, &execproto.WriteFileParams{
				Path: uri(secret), DataBase64: execproto.Base64Text("ZXZpbA=="), Sandbox: sandbox,
			}, nil)
			if b, _ := os.ReadFile(secret); err == nil || string(b) != "key" {
				t.Errorf("fs/writeFile: %q, %v", b, err)
			}
			var r execproto.ReadFileResult
			err = client.Call(ctx, execproto.MethodFSReadFile, &execproto.LinkPathParams{Path: uri(secret), Sandbox: sandbox}, &r)
			if path == secret && (err == nil || !strings.Contains(err.Error(), path)) {
				t.Errorf("fs/readFile: %q, %v", r.DataBase64, err)
			}
			for _, left := range []string{".git", ".codex", ".agents", "no"} {
				if _, err := os.Lstat(ws + "/" + left + "/config"); err == nil {
					t.Errorf("%s is left", left)
				}
			}
		})
	}
}
