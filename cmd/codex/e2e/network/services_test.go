package network

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"golang.org/x/net/dns/dnsmessage"
)

// names are the names that the resolver outside knows.
var names = map[string][]string{
	"allowed.test.":     {resolver},
	"www.allowed.test.": {resolver},
	"denied.test.":      {other},
	"private.test.":     {"10.0.0.5"},
	"metadata.test.":    {"169.254.169.254"},
	"mixed.test.":       {resolver, "127.0.0.1"},
	"mapped.test.":      {"::ffff:127.0.0.1"},
	"translated.test.":  {"64:ff9b::a9fe:a9fe"},
	"made-up.test.":     {"198.18.0.1"},
	// The attacker's resolver may also resolve names that look like addresses.
	"2852039166.": {"169.254.169.254"},
	"127.1.":      {"127.0.0.1"},
}

// rebinding is a name whose second answer differs from the first.
const rebinding = "rebinding.test."

// resolverSockets are the sockets of services that resolve names for the programs of a machine.
var resolverSockets = []string{
	"/run/nscd/socket", "/run/dbus/system_bus_socket", "/run/systemd/resolve/io.systemd.Resolve", "/run/avahi-daemon/socket",
}

// serve starts the services: those outside, which have every address, and those of the machine
// inside, which commands must not reach.
func (w *world) serve() {
	w.t.Helper()
	certificate := makeCertificate(w)
	web := &http.Server{Handler: w.web("outside"), ErrorLog: nil, TLSConfig: &tls.Config{
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			w.note("outside TLS %s", h.ServerName)
			return certificate, nil
		},
	}}
	for address, serve := range map[string]func(net.Listener){
		":80":   func(l net.Listener) { _ = web.Serve(l) },
		":443":  func(l net.Listener) { _ = web.ServeTLS(l, "", "") },
		":3128": func(l net.Listener) { accept(l, w.proxy) },
		":22":   func(l net.Listener) { accept(l, echo) },
		":53":   func(l net.Listener) { accept(l, echo) },
		":853":  func(l net.Listener) { accept(l, echo) },
		":5432": func(l net.Listener) { accept(l, echo) },
	} {
		w.listen(w.outside, "tcp", address, serve)
	}
	machine := &http.Server{Handler: w.web("machine")}
	w.listen(w.inside, "tcp", ":80", func(l net.Listener) { _ = machine.Serve(l) })
	for _, path := range resolverSockets {
		harness.Must(w.t, w.inside.do(func() error { return os.MkdirAll(filepath.Dir(path), 0o755) }))
		w.listen(w.inside, "unix", path, func(l net.Listener) {
			accept(l, func(conn net.Conn) {
				w.note("machine %s", path)
				echo(conn)
			})
		})
		harness.Must(w.t, w.inside.do(func() error { return os.Chmod(path, 0o666) }))
	}
	w.resolve()
}

// listen serves a listener in a space until the end of the test.
func (w *world) listen(s *space, network, address string, serve func(net.Listener)) {
	w.t.Helper()
	var l net.Listener
	harness.Must(w.t, s.do(func() (err error) {
		l, err = net.Listen(network, address)
		return err
	}))
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // the socket is in another view of the file system
	}
	var wg sync.WaitGroup
	wg.Go(func() { serve(l) })
	w.t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
}

// accept serves each connection of a listener until it is closed.
func accept(l net.Listener, serve func(net.Conn)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			serve(conn)
		}()
	}
}

func echo(conn net.Conn) { _, _ = io.Copy(conn, conn) }

// web answers each request with a greeting, and records the request.
func (w *world) web(place string) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		to, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		w.note("%s HTTP %s: %s %s%s", place, to, r.Method, r.Host, r.RequestURI)
		_, _ = io.WriteString(rw, "hello")
	})
}

// proxy is an HTTP proxy that records its targets. It resolves no names and connects to no host.
func (w *world) proxy(conn net.Conn) {
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	w.note("proxy %s %s", r.Method, r.RequestURI)
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
}

// resolve answers DNS queries outside.
func (w *world) resolve() {
	w.t.Helper()
	var conn *net.UDPConn
	harness.Must(w.t, w.outside.do(func() (err error) {
		conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(resolver), Port: 53})
		return err
	}))
	var wg sync.WaitGroup
	wg.Go(func() {
		asked := 0
		for query := make([]byte, 4096); ; {
			n, from, err := conn.ReadFromUDPAddrPort(query)
			if err != nil {
				return
			}
			if answer := w.answer(query[:n], &asked); answer != nil {
				_, _ = conn.WriteToUDPAddrPort(answer, from)
			}
		}
	})
	w.t.Cleanup(func() {
		_ = conn.Close()
		wg.Wait()
	})
}

// answer answers a query. asked counts the queries for the address of rebinding.
func (w *world) answer(query []byte, asked *int) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(query)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	name := strings.ToLower(q.Name.String())
	w.note("resolver %s", name)
	addresses := names[name]
	if name == rebinding {
		addresses = []string{resolver}
		if q.Type == dnsmessage.TypeA {
			*asked++
		}
		if *asked > 1 {
			addresses = []string{"127.0.0.1"}
		}
	}
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: head.ID, Response: true, RecursionAvailable: true},
		Questions: []dnsmessage.Question{q}}
	if len(addresses) == 0 {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, text := range addresses {
		record := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}}
		switch a := netip.MustParseAddr(text); {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			record.Body = &dnsmessage.AResource{A: a.As4()}
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			record.Body = &dnsmessage.AAAAResource{AAAA: a.As16()}
		default:
			continue
		}
		m.Answers = append(m.Answers, record)
	}
	packed, err := m.Pack()
	if err != nil {
		return nil
	}
	return packed
}

// makeCertificate creates a certificate for every name: the clients of these tests verify no certificates.
func makeCertificate(w *world) *tls.Certificate {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	harness.Must(w.t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	harness.Must(w.t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
