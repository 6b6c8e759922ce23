package network

import (
	"bufio"
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// loopbackPorts returns the ports of 127.0.0.1 on which programs inside listen.
func (w *world) loopbackPorts(t *testing.T) (list []string) {
	t.Helper()
	text, err := os.ReadFile(w.inside.file("net/tcp"))
	harness.Must(t, err)
	for line := range strings.Lines(string(text)) {
		const listens, loopback = "0A", "0100007F:"
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[3] != listens {
			continue
		}
		if hex, found := strings.CutPrefix(fields[1], loopback); found {
			port, err := strconv.ParseUint(hex, 16, 16)
			harness.Must(t, err)
			list = append(list, fmt.Sprint(port))
		}
	}
	return list
}

// start starts a waiting sandboxed command with its own network proxy.
func (w *world) start(t *testing.T, url string) {
	t.Helper()
	cmd := exec.Command(harness.Codex, "remote", "run", "--url", url, "--cwd", w.workspace, "--sandbox", "workspace-write",
		"--allow-domain", "allowed.test", "--", "sh", "-c", "echo ready; exec sleep 1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	harness.Must(t, err)
	harness.Must(t, w.inside.do(cmd.Start))
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("got line %q, error %v; want line %q", line, err, "ready\n")
	}
}

// TestOtherProxies: a command cannot reach the proxies of another process, or the server itself,
// through its proxy, even if the policy permits connections to the machine.
func TestOtherProxies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url := w.server(t, nil)
	w.start(t, url)
	ports := w.loopbackPorts(t)
	if len(ports) != 3 { // the server and two proxies listen
		t.Fatalf("ports %q", ports)
	}
	own := []string{"127.0.0.1", "localhost", "93.184.215.1", "::1", "0.0.0.0", "127.0.0.2"}
	var words [][]string
	for _, port := range ports {
		for _, host := range own {
			text := host
			if address, err := netip.ParseAddr(host); err == nil {
				words = append(words, one("socks", "address", host, port))
				if address.Is6() {
					text = "[" + host + "]"
				}
			}
			words = append(words, one("http", "1", get("http://"+text+":"+port+"/")), one("connect", text+":"+port), one("socks",
				"name", text, port),
				one("plain", text+":"+port, get("http://allowed.test/")))
		}
	}
	if result := w.run(t, url, own, words...); strings.Contains(result, through) {
		t.Errorf("it got through:\n%s", result)
	}
	if result := w.run(t, url, own, one("http", "1", get("http://127.0.0.1/"))); !strings.Contains(result, through) {
		t.Errorf("control: nothing got through: %s", result)
	}
}

// TestProxiesOfAnotherUser: a process of another user on the same machine cannot use
// the proxies of a process.
func TestProxiesOfAnotherUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.loopbackPorts(t)
	if len(before) != 0 {
		t.Fatalf("ports %q", before)
	}
	url := w.server(t, nil)
	w.start(t, url)
	self, err := os.Open("/proc/self/exe")
	harness.Must(t, err)
	defer self.Close()
	const nobody = 65534
	for _, port := range w.loopbackPorts(t) {
		if strings.HasSuffix(url, ":"+port) {
			continue
		}
		for user, credential := range map[string]*syscall.Credential{"nobody": {Uid: nobody, Gid: nobody}, "root": nil} {
			var out bytes.Buffer
			cmd := exec.Command("/proc/self/fd/3")
			cmd.ExtraFiles = []*os.File{self}
			cmd.Stdout = &out
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
			cmd.Dir = "/"
			cmd.Env = []string{
				"HTTP_PROXY=http://127.0.0.1:" + port, "ALL_PROXY=socks5h://127.0.0.1:" + port,
				attackVariable + "=" + encode(t, [][]string{viaHTTPControl, one("socks", "name", "allowed.test", "80")}),
			}
			harness.Must(t, w.inside.run(cmd))
			if got := strings.Contains(out.String(), through); got != (user == "root") {
				t.Errorf("%s at port %s: %s", user, port, out.String())
			}
		}
	}
}
