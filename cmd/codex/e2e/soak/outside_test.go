package soak

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
)

const (
	smallBody = "hello from the web server"
	largeBody = 1 << 20
	// idleTime is the time for which a connection may be idle. By default the server would keep
	// connections for later requests for a minute and a half. The soak would then have to wait as
	// long for the server to be at rest.
	idleTime = 2 * time.Second
)

// outside contains the servers that clients reach through the exec-server: a web server and an echo server.
type outside struct {
	url  string
	port uint16
}

// startOutside starts both servers. They end with the test.
func startOutside(t *testing.T) *outside {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/small", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, smallBody) })
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte("x"), largeBody))
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		piece := bytes.Repeat([]byte("y"), 32<<10)
		ticker := time.NewTicker(5 * time.Millisecond) // without this limit it would use all memory of the machine
		defer ticker.Stop()
		for r.Context().Err() == nil {
			if _, err := w.Write(piece); err != nil {
				return
			}
			<-ticker.C
		}
	})
	web := httptest.NewUnstartedServer(mux)
	web.Config.IdleTimeout = idleTime
	web.Start()
	t.Cleanup(web.Close)
	return &outside{url: web.URL, port: harness.Echo(t)}
}

// greet is the program of turns that use ports. It listens on the address, prints a line, and sends
// a greeting to each connection until it is terminated.
func greet(args []string) int {
	signal.Ignore(syscall.SIGPIPE)
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, "greet:", err)
		return 1
	}
	fmt.Printf("listening on %d\n", l.Addr().(*net.TCPAddr).Port)
	for {
		conn, err := l.Accept()
		if err != nil {
			return 1
		}
		_, _ = io.WriteString(conn, greeting)
		_ = conn.Close()
	}
}

const greeting = "hello from inside"

// fetch is the program of turns that use network proxies. It prints the status of the response for
// each URL. Unlike other programs, it also uses the proxy for addresses of this machine.
func fetch(urls []string) int {
	proxy, err := url.Parse(os.Getenv("HTTP_PROXY"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "fetch:", err)
		return 1
	}
	client := http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}
	for _, each := range urls {
		response, err := client.Get(each)
		if err != nil {
			fmt.Fprintln(os.Stderr, "fetch:", err)
			return 1
		}
		_ = response.Body.Close()
		fmt.Printf("%d ", response.StatusCode)
	}
	return 0
}
