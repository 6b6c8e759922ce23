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
	// idleTime is how long a connection may be idle. The server under test would keep
	// connections for later requests for a minute and a half, which would make its rest
	// as long.
	idleTime = 2 * time.Second
)

// outside has what clients reach through the server: a web server, and one that echoes.
type outside struct {
	url  string
	port uint16
}

// startOutside starts both, until the end of the test.
func startOutside(t *testing.T) *outside {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/small", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, smallBody) })
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte("x"), largeBody))
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		piece := bytes.Repeat([]byte("y"), 32<<10)
		ticker := time.NewTicker(5 * time.Millisecond) // without a limit it would use all memory of the machine
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

// greet is the program of turns about ports: it listens on the address and says so, and
// greets each connection until it is terminated.
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

// fetch is the program of turns about network proxies: it prints the status of the answer
// for each URL. Unlike others it asks the proxy for addresses of this machine, too.
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
