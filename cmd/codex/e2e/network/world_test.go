package network

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// Addresses of the outer network. The machine outside also has all other addresses.
const (
	resolver  = "93.184.215.14" // also the address of allowed.test
	other     = "93.184.216.34" // the address of denied.test
	insideV4  = "93.184.215.1/24"
	insideV6  = "2606:4700:1::1/64"
	outsideV4 = "93.184.215.14/24"
	outsideV6 = "2606:4700:1::2/64"
	outerLink = "02:00:00:00:00:01"
	worldLink = "02:00:00:00:00:02"
)

// space is a network namespace and a view of the file system. A thread of this program is in the
// space. Programs that the thread starts and sockets that it creates belong to the space.
type space struct {
	calls chan func()
	tid   int
}

func newSpace(t *testing.T, flags int) *space {
	t.Helper()
	s := &space{calls: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		s.tid = unix.Gettid()
		ready <- unix.Unshare(flags)
		for call := range s.calls {
			call()
		}
	}()
	testutil.Need(t, "right to make networks", <-ready, unix.EPERM, unix.ENOSPC)
	t.Cleanup(func() { close(s.calls) })
	return s
}

// do runs a function in the space.
func (s *space) do(f func() error) error {
	ended := make(chan error)
	s.calls <- func() { ended <- f() }
	return <-ended
}

// run runs a program in the space, to its end.
func (s *space) run(cmd *exec.Cmd) error {
	var text bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout, cmd.Stderr = &text, &text
	}
	if err := s.do(cmd.Start); err != nil {
		return err
	}
	timer := time.AfterFunc(harness.Patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%q: %w: %s", cmd.Args, err, text.String())
	}
	return nil
}

// file returns the path of a file of the space's thread in /proc.
func (s *space) file(name string) string {
	return fmt.Sprintf("/proc/%d/task/%d/%s", os.Getpid(), s.tid, name)
}

// world contains both networks: the one inside, with servers and sandboxes, and the one outside.
type world struct {
	t               *testing.T
	inside, outside *space
	dir, workspace  string
	packets         *os.File // receives the packets that leave the inside

	mu     sync.Mutex
	events []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make networks whose packets it counts")
	}
	harness.NeedSandbox(t)
	_, err := exec.LookPath("ip")
	testutil.Need(t, "ip (apt-get install iproute2)", err, exec.ErrNotFound)
	w := &world{t: t, outside: newSpace(t, unix.CLONE_NEWNET), inside: newSpace(t, unix.CLONE_NEWNET|unix.CLONE_NEWNS)}
	w.workspace, w.dir = harness.Places(t)
	w.connect()
	harness.Must(t, w.inside.do(w.mount))
	w.watch()
	w.serve()
	return w
}

// connect connects both networks. Routes for all other addresses lead outside.
func (w *world) connect() {
	w.t.Helper()
	ip := func(s *space, commands string) {
		w.t.Helper()
		cmd := exec.Command("ip", "-batch", "-")
		cmd.Stdin = strings.NewReader(commands)
		harness.Must(w.t, s.run(cmd))
	}
	ip(w.outside, "link set lo up\n")
	ip(w.inside,
		"link set lo up\n"+
			"link add outer address "+outerLink+" type veth peer name world address "+worldLink+" netns "+w.outside.file("ns/net")+"\n"+
			"address add "+insideV4+" dev outer\naddress add "+insideV6+" dev outer nodad\nlink set outer up\n")
	ip(w.outside, "address add "+outsideV4+" dev world\naddress add "+outsideV6+" dev world nodad\nlink set world up\n"+
		"route add local 0.0.0.0/0 dev lo\nroute add local ::/0 dev lo\nroute add 2606:4700:1::1 dev world table local\n")
	ip(w.inside, "neighbour replace "+resolver+" lladdr "+worldLink+" nud permanent dev outer\n"+
		"neighbour replace 2606:4700:1::2 lladdr "+worldLink+" nud permanent dev outer\n"+
		"route add default via "+resolver+"\nroute add default via 2606:4700:1::2\n")
	ip(w.outside, "neighbour replace 93.184.215.1 lladdr "+outerLink+" nud permanent dev world\n"+
		"neighbour replace 2606:4700:1::1 lladdr "+outerLink+" nud permanent dev world\n")
}

// mount gives the network inside a resolver configuration, and a directory for the sockets of services.
func (w *world) mount() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	configuration, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil {
		return err
	}
	if err := unix.Mount("none", "/run", "tmpfs", 0, ""); err != nil {
		return err
	}
	for path, text := range map[string]string{configuration: "nameserver " + resolver + "\n", "/etc/hosts": "127.0.0.1 localhost\n"} {
		from := filepath.Join(w.dir, filepath.Base(path))
		if err := os.WriteFile(from, []byte(text), 0o644); err != nil {
			return err
		}
		if strings.HasPrefix(path, "/run/") {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				return err
			}
		}
		if err := unix.Mount(from, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s: %w", path, err)
		}
	}
	return nil
}

// watch makes a socket receive every packet that comes from the inside.
func (w *world) watch() {
	w.t.Helper()
	harness.Must(w.t, w.outside.do(func() error {
		const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, all)
		if err != nil {
			return err
		}
		w.packets = os.NewFile(uintptr(fd), "packets")
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
		link, err := net.InterfaceByName("world")
		if err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index})
	}))
	w.t.Cleanup(func() { _ = w.packets.Close() })
}

// marker is the port of a packet that left sends last: when the packet arrives, all earlier packets have arrived.
const marker = "9"

// left returns the packets that have left the network inside since the last call: new TCP
// connections, and packets of all other protocols.
func (w *world) left() (list []string) {
	w.t.Helper()
	harness.Must(w.t, w.inside.do(func() error {
		conn, err := net.Dial("udp4", net.JoinHostPort(resolver, marker))
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte("marker"))
		return err
	}))
	harness.Must(w.t, w.packets.SetReadDeadline(time.Now().Add(harness.Patience)))
	raw, err := w.packets.SyscallConn()
	harness.Must(w.t, err)
	for packet := make([]byte, 1<<16); ; {
		var n int
		var from unix.Sockaddr
		var failed error
		harness.Must(w.t, raw.Read(func(fd uintptr) bool {
			n, from, failed = unix.Recvfrom(int(fd), packet, 0)
			return failed != unix.EAGAIN
		}))
		harness.Must(w.t, failed)
		if l, ok := from.(*unix.SockaddrLinklayer); ok && l.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		switch text := describe(packet[:n]); text {
		case "":
		case "udp " + resolver + ":" + marker:
			return list
		default:
			list = append(list, text)
		}
	}
}

// describe returns the protocol and the destination of a packet. It returns "" for packets that are
// ignored: the kernel's own, and those of established connections.
func describe(frame []byte) string {
	const header, v4, v6, arp = 14, 0x0800, 0x86dd, 0x0806
	if len(frame) < header {
		return "short frame"
	}
	body := frame[header:]
	switch kind := binary.BigEndian.Uint16(frame[12:]); {
	case kind == arp:
		return ""
	case kind == v4 && len(body) >= 24:
		size := int(body[0]&15) * 4
		return describeTransport(body[9], netip.AddrFrom4([4]byte(body[16:20])), body[min(size, len(body)):])
	case kind == v6 && len(body) >= 44:
		return describeTransport(body[6], netip.AddrFrom16([16]byte(body[24:40])), body[40:])
	default:
		return fmt.Sprintf("ether type %#x", kind)
	}
}

func describeTransport(protocol byte, to netip.Addr, body []byte) string {
	const multicastReports, hopByHop = 2, 0
	switch {
	case protocol == unix.IPPROTO_TCP && len(body) > 13:
		if syn := body[13]&2 != 0; !syn {
			return ""
		}
		return "tcp " + netip.AddrPortFrom(to, binary.BigEndian.Uint16(body[2:])).String()
	case protocol == unix.IPPROTO_UDP && len(body) > 4:
		return "udp " + netip.AddrPortFrom(to, binary.BigEndian.Uint16(body[2:])).String()
	case protocol == multicastReports, protocol == hopByHop:
		return "" // multicast memberships of the kernel
	case protocol == unix.IPPROTO_ICMPV6 && len(body) > 0 && body[0] >= 130:
		return "" // neighbour discovery
	case protocol == unix.IPPROTO_ICMP && len(body) > 0 && body[0] == 3:
		return "" // the kernel's response to a packet from outside
	default:
		return fmt.Sprintf("protocol %d to %s", protocol, to)
	}
}

// note records what a service received.
func (w *world) note(format string, arguments ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, fmt.Sprintf(format, arguments...))
}

// noted returns the data that the services have received since the last call.
func (w *world) noted() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.events
	w.events = nil
	return list
}

// server starts a server inside, and returns its URL.
func (w *world) server(t *testing.T, env []string, options ...string) string {
	t.Helper()
	cmd := exec.Command(harness.Codex, append([]string{"exec-server", "--listen", "ws://127.0.0.1:0"}, options...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = harness.ShownOnFailure(t)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	harness.Must(t, err)
	harness.Must(t, w.inside.do(cmd.Start))
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	harness.Must(t, err)
	return strings.TrimSpace(line)
}
