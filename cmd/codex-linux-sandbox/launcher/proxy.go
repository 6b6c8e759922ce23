//go:build linux

package launcher

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"codex.internal/pkg/jsonwire"
	"golang.org/x/sys/unix"
)

// Managed proxy mode (section 7.3): inside there is an empty network with a
// listener for each proxy. The listeners are made inside and handed out to the
// launcher, which connects what they accept with the proxies of the host;
// nothing of it is in the file system, and it ends with the launcher.

const (
	// maxProxied bounds the connections that are open at a time through one
	// listener; more wait in its queue.
	maxProxied = 256
	backlog    = 128
	copyBuffer = 64 << 10
	// maxRoutes bounds the different proxies: each variable has one at most.
	maxRoutes = 32
)

// proxyVariables are the variables that name proxies, in any case.
var proxyVariables = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY",
	"NPM_CONFIG_HTTP_PROXY", "NPM_CONFIG_HTTPS_PROXY", "NPM_CONFIG_PROXY", "BUNDLE_HTTP_PROXY",
	"BUNDLE_HTTPS_PROXY", "PIP_PROXY", "DOCKER_HTTP_PROXY", "DOCKER_HTTPS_PROXY",
}

// endpoint is a proxy of the host: a loopback address or a Unix socket.
type endpoint struct {
	host string // as it is written
	port uint16
	path string
}

// proxies are the routes of a launch.
type proxies struct {
	env       []string // with the variables rewritten
	endpoints []endpoint
	ports     []uint16 // inside, for each endpoint
	fixed     []int    // numbers that the listeners get inside
	ours      int      // our end of the socket over which they come
	theirs    int
}

// proxyURL is a URL in parts that a rewrite keeps.
type proxyURL struct {
	scheme, user, tail string // with "://", with "@", from the path on
	endpoint
}

// parseProxyURL reads a proxy's URL, whose scheme is optional. ok is false
// unless it leads to a loopback address as the reference spells it.
func parseProxyURL(text string) (u proxyURL, ok bool) {
	rest := strings.TrimSpace(text)
	if i := strings.Index(rest, "://"); i >= 0 {
		u.scheme, rest = rest[:i+3], rest[i+3:]
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest, u.tail = rest[:i], rest[i:]
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		u.user, rest = rest[:i+1], rest[i+1:]
	}
	host, port, found := rest, "", false
	if inner, ok := strings.CutPrefix(rest, "["); ok {
		if host, port, found = strings.Cut(inner, "]"); !found {
			return u, false
		}
		port, found = strings.CutPrefix(port, ":")
	} else {
		host, port, found = strings.Cut(rest, ":")
	}
	u.host = strings.ToLower(host)
	switch u.host {
	case "localhost", "127.0.0.1", "::1":
	default:
		return u, false
	}
	if !found || port == "" {
		u.port = defaultPort(strings.ToLower(u.scheme))
		return u, true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	u.port = uint16(n)
	return u, err == nil && n != 0
}

func defaultPort(scheme string) uint16 {
	switch {
	case scheme == "https://":
		return 443
	case strings.HasPrefix(scheme, "socks"):
		return 1080
	default:
		return 80
	}
}

// rewrite is the URL with another place.
func (u proxyURL) rewrite(port uint16) string {
	tail := u.tail
	if tail == "/" {
		tail = ""
	}
	return u.scheme + u.user + "127.0.0.1:" + strconv.Itoa(int(port)) + tail
}

// findProxies finds the proxies in the environment, or in a route spec.
func (l *launch) findProxies() (*proxies, error) {
	x := &proxies{env: slices.Clone(l.env), ours: -1, theirs: -1}
	routes, err := parseRoutes(l.routeSpec)
	if err != nil {
		return nil, err
	}
	set, usable := false, 0
	for i, kv := range x.env {
		key, value, _ := strings.Cut(kv, "=")
		if !slices.Contains(proxyVariables, strings.ToUpper(key)) || strings.TrimSpace(value) == "" {
			continue
		}
		set = true
		u, ok := parseProxyURL(value)
		if path := routes[key]; path != "" {
			u.endpoint, ok = endpoint{path: path}, true
		} else if routes != nil {
			ok = false
		}
		if !ok {
			continue
		}
		usable++
		port, err := x.route(u.endpoint)
		if err != nil {
			return nil, err
		}
		x.env[i] = key + "=" + u.rewrite(port)
	}
	switch {
	case !set:
		return nil, errors.New("managed proxy mode requires proxy environment variables")
	case usable == 0:
		return nil, errors.New("managed proxy mode requires parseable loopback proxy endpoints")
	}
	for key := range routes {
		if !slices.ContainsFunc(x.env, func(kv string) bool { return strings.HasPrefix(kv, key+"=") }) {
			return nil, fmt.Errorf("missing proxy env key %s", key)
		}
	}
	return x, x.open()
}

// route returns the port inside for an endpoint.
func (x *proxies) route(e endpoint) (uint16, error) {
	if i := slices.Index(x.endpoints, e); i >= 0 {
		return x.ports[i], nil
	}
	if len(x.endpoints) >= maxRoutes {
		return 0, fmt.Errorf("more than %d different proxies", maxRoutes)
	}
	// The network inside is new: every port is free.
	const first, count = 20000, 40000
	port := uint16(first + rand.IntN(count))
	for slices.Contains(x.ports, port) {
		port++
	}
	x.endpoints, x.ports = append(x.endpoints, e), append(x.ports, port)
	return port, nil
}

// parseRoutes reads a route spec: sockets by variable. Without a spec the
// result is nil.
func parseRoutes(text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	routes := make(map[string]string)
	r := jsonwire.NewReader([]byte(text))
	err := r.Object("a map", func(name []byte) error {
		if string(name) != "routes" {
			return r.Skip()
		}
		return r.Array("a sequence", func() error {
			key, path := "", ""
			err := r.Object("a map", func(name []byte) (err error) {
				switch string(name) {
				case "env_key":
					key, err = r.String()
				case "uds_path":
					path, err = r.String()
				default:
					err = r.Skip()
				}
				return err
			})
			if err == nil && (key == "" || path == "") {
				err = errors.New("a route needs env_key and uds_path")
			}
			routes[key] = path
			return err
		})
	})
	if err == nil {
		err = r.End()
	}
	if err == nil && len(routes) == 0 {
		err = errors.New("proxy routing spec contained no routes")
	}
	if err != nil {
		return nil, &usageError{"invalid proxy route spec: " + err.Error()}
	}
	return routes, nil
}

// open makes the socket over which the listeners come, and reserves numbers
// for them.
func (x *proxies) open() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a socket: %w", err)
	}
	x.ours, x.theirs = pair[0], pair[1]
	for range x.ports {
		fd, err := unix.FcntlInt(uintptr(x.theirs), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("reserve a descriptor: %w", err)
		}
		x.fixed = append(x.fixed, fd)
	}
	return nil
}

// listen appends the steps that make the listeners inside and hand them out.
func (x *proxies) listen(p *program) {
	for i, port := range x.ports {
		fd := p.get("make a socket", "", unix.SYS_SOCKET, val(unix.AF_INET), val(unix.SOCK_STREAM|unix.SOCK_CLOEXEC), val(0))
		address := &unix.RawSockaddrInet4{Family: unix.AF_INET, Port: port<<8 | port>>8, Addr: [4]byte{127, 0, 0, 1}}
		p.do("bind", "127.0.0.1:"+strconv.Itoa(int(port)), unix.SYS_BIND, fd.arg(), pointer(p, address), val(unix.SizeofSockaddrInet4))
		p.do("listen", "", unix.SYS_LISTEN, fd.arg(), val(backlog))
		p.do("keep the listener", "", unix.SYS_DUP3, fd.arg(), val(x.fixed[i]), val(unix.O_CLOEXEC))
		p.close(fd)
	}
	rights := unix.UnixRights(x.fixed...)
	text := []byte{1}
	vector := &unix.Iovec{Base: &text[0]}
	vector.SetLen(1)
	message := &unix.Msghdr{Iov: vector, Control: &rights[0]}
	message.SetIovlen(1)
	message.SetControllen(len(rights))
	p.keep = append(p.keep, text, vector, rights)
	p.do("hand out the listeners", "", unix.SYS_SENDMSG, val(x.theirs), pointer(p, message), val(0))
	for _, fd := range x.fixed {
		p.do("close", "the listener", unix.SYS_CLOSE, val(fd))
	}
	p.do("close", "the socket", unix.SYS_CLOSE, val(x.theirs))
}

// serve takes the listeners and connects what they accept, until the launcher
// ends. It returns at once.
func (x *proxies) serve() {
	for _, fd := range append(slices.Clone(x.fixed), x.theirs) {
		_ = unix.Close(fd)
	}
	go func() {
		oob := make([]byte, unix.CmsgSpace(4*maxRoutes))
		_, n, _, _, err := unix.Recvmsg(x.ours, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
		if err != nil {
			return
		}
		messages, err := unix.ParseSocketControlMessage(oob[:n])
		if err != nil || len(messages) == 0 {
			return
		}
		if fds, err := unix.ParseUnixRights(&messages[0]); err == nil {
			x.adopt(fds)
		}
	}()
}

// adopt serves listeners that came from inside.
func (x *proxies) adopt(fds []int) {
	for i, fd := range fds[:min(len(fds), len(x.endpoints))] {
		go accept(fd, x.endpoints[i])
	}
}

// listenHere makes the listeners of ports in this process, which is inside,
// and hands them out with a greeting.
func (x *proxies) listenHere() error {
	var fds []int
	for _, port := range x.ports {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}})
		}
		if err == nil {
			err = unix.Listen(fd, backlog)
		}
		if err != nil {
			return fmt.Errorf("error activating Linux proxy routing bridge: listen on 127.0.0.1:%d: %w", port, err)
		}
		fds = append(fds, fd)
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	if err := unix.Sendmsg(x.theirs, []byte{1}, oob, nil, 0); err != nil {
		return fmt.Errorf("tell the launcher: %w", err)
	}
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	return nil
}

// accept connects each connection of a listener with its proxy.
func accept(listener int, to endpoint) {
	slots := make(chan struct{}, maxProxied)
	for {
		slots <- struct{}{}
		fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
		if err != nil {
			<-slots
			if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED) {
				continue
			}
			return
		}
		go func() {
			defer func() { <-slots }()
			to.join(fd)
		}()
	}
}

// join moves bytes both ways until both directions have ended.
func (e endpoint) join(inside int) {
	outside, err := e.dial()
	if err != nil {
		_ = unix.Close(inside)
		return
	}
	a, b := stream(inside), stream(outside)
	defer a.Close()
	defer b.Close()
	var wg sync.WaitGroup
	pipe := func(to, from *os.File, fd int) {
		_, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, copyBuffer))
		_ = unix.Shutdown(fd, unix.SHUT_WR)
	}
	wg.Go(func() { pipe(b, a, outside) })
	wg.Go(func() { pipe(a, b, inside) })
	wg.Wait()
}

// stream makes a file of a socket whose reads hold no thread.
func stream(fd int) *os.File {
	_ = unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), "proxied")
}

// dial connects to the proxy on the host.
func (e endpoint) dial() (int, error) {
	v4 := &unix.SockaddrInet4{Port: int(e.port), Addr: [4]byte{127, 0, 0, 1}}
	v6 := &unix.SockaddrInet6{Port: int(e.port), Addr: [16]byte{15: 1}}
	switch {
	case e.path != "":
		return connect(unix.AF_UNIX, &unix.SockaddrUnix{Name: e.path})
	case e.host == "::1":
		return connect(unix.AF_INET6, v6)
	case e.host == "localhost":
		if fd, err := connect(unix.AF_INET, v4); err == nil {
			return fd, nil
		}
		return connect(unix.AF_INET6, v6)
	default:
		return connect(unix.AF_INET, v4)
	}
}

func connect(family int, to unix.Sockaddr) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Connect(fd, to); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
