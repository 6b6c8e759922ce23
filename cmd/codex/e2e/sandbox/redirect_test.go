package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/sandbox/egress"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/runner"
	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// dialEnv makes this program act as a program that does not use a proxy. Its value is a list of
// actions. Each line of output is an action and its result.
const dialEnv = "E2E_DIAL"

func init() {
	words := os.Getenv(dialEnv)
	if words == "" {
		return
	}
	for word := range strings.FieldsSeq(words) {
		fmt.Println(word, dialWord(word))
	}
	os.Exit(0)
}

// dialWord carries out an action: it sends a greeting to a server over a network, starts its own
// server, or floods the launcher's listener.
func dialWord(word string) string {
	network, address, _ := strings.Cut(word, "/")
	switch network {
	case "own":
		return ownServer(address)
	case "flood":
		return flood()
	case "many":
		return many(address)
	case "given":
		return given(address)
	case "stall":
		return stall(address)
	}
	dialer := net.Dialer{Timeout: harness.Patience, Resolver: &net.Resolver{PreferGo: true}}
	conn, err := dialer.Dial(network, address)
	if err != nil {
		return reasonOf(err)
	}
	defer conn.Close()
	return greet(conn)
}

// greet sends a word and returns the answer.
func greet(conn net.Conn) string {
	if _, err := io.WriteString(conn, "hello"); err != nil {
		return reasonOf(err)
	}
	text := make([]byte, 5)
	if _, err := io.ReadFull(conn, text); err != nil {
		return reasonOf(err)
	}
	return string(text)
}

func reasonOf(err error) string {
	var lookup *net.DNSError
	var errno syscall.Errno
	switch {
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return "not found"
	case errors.As(err, &errno):
		return errno.Error()
	}
	return err.Error()
}

// ownServer connects to a server within this program.
func ownServer(address string) string {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return reasonOf(err)
	}
	defer l.Close()
	go func() {
		if conn, err := l.Accept(); err == nil {
			_, _ = io.WriteString(conn, "own!!")
			_ = conn.Close()
		}
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return reasonOf(err)
	}
	defer conn.Close()
	return greet(conn)
}

// flood connects to the launcher's listener by TCP Fast Open, which needs no connect. It makes more
// connections than the listener's backlog holds.
func flood() string {
	for range 200 {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return reasonOf(err)
		}
		to := &unix.SockaddrInet4{Port: 1, Addr: [4]byte{8, 8, 8, 8}}
		if err := unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, to); err != nil && err != unix.EINPROGRESS && err != unix.EAGAIN {
			return reasonOf(err)
		}
	}
	return "done"
}

// given connects a socket that it receives over standard input.
func given(address string) string {
	oob := make([]byte, unix.CmsgSpace(4))
	if _, _, _, _, err := unix.Recvmsg(0, make([]byte, 1), oob, 0); err != nil {
		return reasonOf(err)
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) == 0 {
		return "no socket came"
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return reasonOf(err)
	}
	to := netip.MustParseAddrPort(address)
	if err := unix.Connect(fds[0], &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
		return reasonOf(err)
	}
	return "connected"
}

// stall makes connections that are never established, because the socket accepts only packets that
// have passed no router. It returns when all of them wait.
func stall(address string) string {
	const connections = 3
	to := netip.MustParseAddrPort(address)
	for range connections {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return reasonOf(err)
		}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MINTTL, 255); err != nil {
			return reasonOf(err)
		}
		go unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
	}
	const waiting = " 02 " // TCP_SYN_SENT
	for deadline := time.Now().Add(harness.Patience); time.Now().Before(deadline); runtime.Gosched() {
		sockets, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			return reasonOf(err)
		}
		if strings.Count(string(sockets), waiting) == connections {
			return "waiting"
		}
	}
	return "no connection waits"
}

// many makes connections at the same time.
func many(address string) string {
	var wg sync.WaitGroup
	ended := make([]string, 50)
	for i := range ended {
		wg.Go(func() { ended[i] = dialWord("tcp/" + address) })
	}
	wg.Wait()
	slices.Sort(ended)
	return strings.Join(slices.Compact(ended), " ")
}

// redirected is a network proxy that resolves its names to a server of this machine.
type redirected struct {
	t       *testing.T
	proxy   *egress.Proxy
	off     bool   // the command has neither a network nor a proxy
	port    string // port of an echo server
	stdin   *os.File
	mu      sync.Mutex
	reports []string
}

func newRedirected(t *testing.T) *redirected {
	r := &redirected{t: t, port: strconv.Itoa(int(harness.Echo(t)))}
	policy, err := egress.NewPolicy(egress.Config{
		SOCKS5: true, LocalBinding: true, Domains: map[string]egress.Permission{"*.allowed.test": egress.Allow},
	})
	harness.Must(t, err)
	host := egress.NewHost(egress.Options{Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
	}})
	r.proxy, err = host.Start(policy, egress.Hooks{Report: func(d egress.Report) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reports = append(r.reports, fmt.Sprintf("%s %s:%d", d.Verdict, d.Host, d.Port))
	}})
	harness.Must(t, err)
	t.Cleanup(r.proxy.Close)
	return r
}

// run makes a sandboxed program carry out actions, and returns their results.
func (r *redirected) run(backend string, words ...string) map[string]string {
	r.t.Helper()
	launcher, err := runner.NewRuntime(runner.Options{Launcher: harness.Codex, Helper: harness.Codex, Backend: backend})
	harness.Must(r.t, err)
	defer launcher.Close()
	self, err := os.Executable()
	harness.Must(r.t, err)
	profile := permissions.Profile{Kind: permissions.Managed}
	profile.FileSystem.Entries = []permissions.Entry{{Path: permissions.Path{Kind: permissions.Root}, Access: permissions.Read}}
	confinement := runner.Confinement{Profile: profile, PolicyCwd: "/", CommandCwd: "/"}
	if r.off { // a command that may not write gets no sockets of its own
		confinement.Profile.FileSystem.Entries = append(profile.FileSystem.Entries, permissions.Entry{Path: permissions.Path{Text: r.t.TempDir()}, Access: permissions.Write})
	} else {
		confinement.ManagedNetwork, confinement.ProxyPorts, confinement.Redirect = true, r.proxy.Ports(), true
	}
	command, err := launcher.Process(confinement, []string{self}, nil, r.proxy.Environ([]string{"PATH=/usr/bin:/bin", dialEnv + "=" + strings.Join(words, " ")}))
	harness.Must(r.t, err)
	defer command.Refusal.Close()
	cmd := exec.Command(command.Argv[0])
	cmd.Args = append([]string{command.Arg0}, command.Argv[1:]...)
	cmd.Env, cmd.ExtraFiles, cmd.Stderr = command.Env, command.Files, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if r.stdin != nil {
		cmd.Stdin = r.stdin
	}
	if !r.off {
		harness.Must(r.t, r.proxy.Redirect(command.Egress))
	}
	out, err := cmd.Output()
	command.Close()
	if err != nil {
		r.t.Fatalf("got error %v, %s; want no error", err, runner.ReadRefusal(command.Refusal))
	}
	ended := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		word, how, _ := strings.Cut(strings.TrimSpace(line), " ")
		ended[word] = how
	}
	return ended
}

// TestProgramsThatKnowNoProxy: programs that connect directly can reach the hosts of the process's
// policy by their names, and no other hosts.
func TestProgramsThatKnowNoProxy(t *testing.T) {
	t.Parallel()
	for _, backend := range redirecting(t) {
		t.Run(backend, func(t *testing.T) { programsThatKnowNoProxy(t, backend) })
	}
}

// redirecting returns the backends that redirect connections: see testutil.Choice.
func redirecting(t *testing.T) []string {
	harness.NeedSandbox(t)
	if _, err := exec.LookPath("bwrap"); err != nil {
		return []string{"namespaces"}
	}
	return testutil.Choice(t.Name(), []string{"namespaces", "bwrap"})
}

func programsThatKnowNoProxy(t *testing.T, backend string) {
	r := newRedirected(t)
	want := map[string]string{
		"tcp/a.allowed.test:" + r.port:         "hello",
		"tcp4/b.allowed.test:" + r.port:        "hello",
		"tcp6/b.allowed.test:" + r.port:        "hello",
		"tcp6/d.allowed.test:" + r.port:        "hello",
		"tcp6/denied.test:" + r.port:           "not found",
		"many/a.allowed.test:" + r.port:        "hello",
		"tcp/denied.test:" + r.port:            "not found",
		"tcp/127.0.0.1:" + r.port:              "connection refused", // a port of this machine, not of the sandbox
		"tcp/127.0.0.1:1":                      "connection refused", // the launcher's listener
		"tcp/[::1]:1":                          "connection refused",
		"tcp/93.184.216.34:" + r.port:          "connection reset by peer",
		"tcp/[2606:4700::1]:" + r.port:         "connection reset by peer",
		"tcp/198.18.9.9:" + r.port:             "connection reset by peer", // an address that belongs to no name
		"tcp/169.254.169.254:" + r.port:        "connection reset by peer",
		"tcp/[::ffff:93.184.216.34]:" + r.port: "connection reset by peer",
		"udp/93.184.216.34:123":                "connection refused",
		"own/127.0.0.1:0":                      "own!!",
		"own/0.0.0.0:8080":                     "own!!",
		"own/0.0.0.0:53":                       "permission denied",
		"flood":                                "done",
		"tcp/c.allowed.test:" + r.port:         "hello",
	}
	words := []string{"flood", "tcp/c.allowed.test:" + r.port}
	for word := range want {
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	got := r.run(backend, words...)
	for word, how := range want {
		if got[word] != how {
			t.Errorf("%s: %q, want %q", word, got[word], how)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, report := range []string{"allow a.allowed.test:" + r.port, "deny denied.test:0", "deny 169.254.169.254:" + r.port} {
		if !slices.Contains(r.reports, report) {
			t.Errorf("%q was not reported: %q", report, r.reports)
		}
	}
}

// TestStalledConnections: connections that a command stalls do not block its other
// connections.
func TestStalledConnections(t *testing.T) {
	t.Parallel()
	for _, backend := range redirecting(t) {
		r := newRedirected(t)
		for _, word := range []string{"tcp/a.allowed.test:" + r.port, "many/b.allowed.test:" + r.port} {
			got := r.run(backend, "stall/93.184.216.34:80", word)
			if got["stall/93.184.216.34:80"] != "waiting" || got[word] != "hello" {
				t.Errorf(`%s: got %q; want got["stall/93.184.216.34:80"] "waiting", got[word] "hello"`, backend, got)
			}
		}
	}
}

// TestStartUpFilesAreRedirected: a shell's start-up files are read for a snapshot. They can reach
// the same hosts as their command, and do not wait for a server that never answers.
func TestStartUpFilesAreRedirected(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	c := confinedBy(t, harness.Codex)
	profile := "if ! read -r -n 1 x < /dev/tcp/93.184.216.34/5432; then export PROFILE=refused; fi 2>/dev/null\n"
	harness.Must(t, os.WriteFile(c.ws+"/.bash_profile", []byte("echo read >> count\n"+profile), 0o644))
	c.call("process/start", object{
		"processId": "p", "argv": []string{"/bin/bash", "-lc", "echo $PROFILE; wc -l < count"}, "cwd": uri(c.ws), "tty": false,
		"sandbox": c.usual(), "enforceManagedNetwork": true, "env": object{"PATH": "/usr/bin:/bin", "HOME": c.ws},
		"shellSnapshot": object{"scopeId": "s", "shell": object{"name": "bash", "path": "/bin/bash"}},
		"networkProxy": object{"proxy": object{
			"enabled": true, "enableSocks5": true, "enableSocks5Udp": false, "allowUpstreamProxy": false,
			"dangerouslyAllowAllUnixSockets": false, "mode": "full", "allowLocalBinding": false,
		}},
	})
	if e := c.end("p"); e.out != "refused\n1\n" || e.code != 0 {
		t.Errorf("got %+v; want e.out %q, e.code 0", e, "refused\n1\n")
	}
}

// TestSocketsOfAnotherNetwork: a process outside passes a socket of this machine's network to the
// command. The launcher does not connect it.
func TestSocketsOfAnotherNetwork(t *testing.T) {
	t.Parallel()
	for _, backend := range redirecting(t) {
		for _, off := range []bool{false, true} {
			socketsOfAnotherNetwork(t, backend, off)
		}
	}
}

func socketsOfAnotherNetwork(t *testing.T, backend string, off bool) {
	r := newRedirected(t)
	r.off = off
	for _, to := range []string{"127.0.0.1:" + r.port, "93.184.216.34:" + r.port} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		harness.Must(t, err)
		given, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		harness.Must(t, err)
		harness.Must(t, unix.Sendmsg(pair[1], []byte{1}, unix.UnixRights(given), nil, 0))
		r.stdin = os.NewFile(uintptr(pair[0]), "stdin")
		if got := r.run(backend, "given/"+to); got["given/"+to] != "operation not permitted" {
			t.Errorf("%s, network off %v, %s: %q", backend, off, to, got)
		}
		_ = r.stdin.Close()
		_, _ = unix.Close(pair[1]), unix.Close(given)
	}
}

// TestServersRedirect: the connections of a process that bypass its network proxy arrive at its
// server, which reports refusals to the client. A process with transparentTcp has no other network, even
// without enforceManagedNetwork and with a profile that permits the network.
func TestServersRedirect(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	c := confinedBy(t, harness.Codex)
	self, err := os.Executable()
	harness.Must(t, err)
	for id, transparent := range map[string]bool{"managed": false, "transparent": true} {
		sandbox := c.usual()
		if transparent {
			sandbox["permissions"].(object)["network"] = "enabled"
		}
		c.call("process/start", object{
			"processId": id, "argv": []string{self}, "cwd": uri(c.ws), "tty": false, "sandbox": sandbox, "enforceManagedNetwork": !transparent,
			"env": object{"PATH": "/usr/bin:/bin", dialEnv: "tcp/denied.test:80 tcp/93.184.216.34:5432 own/127.0.0.1:0"},
			"networkProxy": object{"proxy": object{
				"enabled": true, "enableSocks5": true, "enableSocks5Udp": false, "allowUpstreamProxy": false,
				"dangerouslyAllowAllUnixSockets": false, "mode": "full", "allowLocalBinding": false, "domains": object{"allowed.test": "allow"},
				"transparentTcp": transparent,
			}},
		})
		want := "tcp/denied.test:80 not found\ntcp/93.184.216.34:5432 connection reset by peer\nown/127.0.0.1:0 own!!\n"
		if e := c.end(id); e.out != want || e.code != 0 {
			t.Errorf("%s: got %+v; want e.out %v, e.code 0", id, e, want)
		}
		for _, host := range []string{`"denied.test","port":0`, `"93.184.216.34","port":5432`} {
			c.wait(func(m message) bool {
				return m.Method == "network/policyDecision" && strings.Contains(string(m.Params), `"decision":"deny"`) &&
					strings.Contains(string(m.Params), `"processId":"`+id+`"`) && strings.Contains(string(m.Params), `"host":`+host)
			})
		}
	}
}
