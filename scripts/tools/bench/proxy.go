package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"time"
)

// proxied measures the network proxy of a process: this program sends its
// requests through the proxy of one that waits.
type proxied struct {
	z      sizes
	web    *httptest.Server
	direct *http.Client
	ways   map[*server]*http.Client
}

func newProxied(z sizes) *proxied {
	p := &proxied{z: z, ways: map[*server]*http.Client{}}
	body := make([]byte, 1<<20)
	p.web = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, _ := strconv.Atoi(r.URL.Path[1:])
		for ; size > 0; size -= len(body) {
			_, _ = w.Write(body[:min(size, len(body))])
		}
	}))
	p.direct = httpsClient(nil)
	return p
}

func (p *proxied) close() {
	for _, way := range p.ways {
		way.CloseIdleConnections()
	}
	p.direct.CloseIdleConnections()
	p.web.Close()
}

// httpsClient trusts every server: only the time counts.
func httpsClient(proxy *url.URL) *http.Client {
	t := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	if proxy != nil {
		t.Proxy = http.ProxyURL(proxy)
	}
	return &http.Client{Transport: t, Timeout: patience}
}

// network is the member of a start that gives it a network proxy which lets this
// machine be reached.
const network = `"networkProxy":{"proxy":{"enabled":true,"enableSocks5":true,"enableSocks5Udp":false,"allowUpstreamProxy":false,` +
	`"dangerouslyAllowAllUnixSockets":false,"mode":"full","allowLocalBinding":false,"domains":{"localhost":"allow"}}}`

// way returns a client that goes through the proxy of a process of the server.
func (p *proxied) way(s *server, c *client) (*http.Client, error) {
	if p.ways[s] != nil {
		return p.ways[s], nil
	}
	id := newID()
	if err := c.start(id, `["sh","-c","echo $HTTP_PROXY; exec sleep 10000"]`, plain+","+network); err != nil {
		return nil, err
	}
	for mine := []byte(`"processId":"` + id + `"`); ; {
		m, err := c.read()
		if err != nil {
			return nil, err
		}
		if !bytes.Contains(m, mine) || !bytes.HasPrefix(m, []byte(`{"method":"process/output"`)) {
			continue
		}
		text, err := base64.StdEncoding.AppendDecode(nil, chunk(m))
		if err != nil {
			return nil, err
		}
		u, err := url.Parse(string(bytes.TrimSpace(text)))
		if err != nil {
			return nil, fmt.Errorf("the proxy's URL: %w", err)
		}
		p.ways[s] = httpsClient(u)
		return p.ways[s], nil
	}
}

// get reads n bytes of the web server.
func (p *proxied) get(way *http.Client, n int) error {
	u, _ := url.Parse(p.web.URL)
	r, err := way.Get("https://localhost:" + u.Port() + "/" + strconv.Itoa(n))
	if err != nil {
		return err
	}
	defer func() { _ = r.Body.Close() }()
	got, err := io.Copy(io.Discard, r.Body)
	if err == nil && got != int64(n) {
		err = fmt.Errorf("%d bytes of %d came", got, n)
	}
	return err
}

// requests is how many requests give one figure, their median.
const requests = 100

func (p *proxied) median(way *http.Client, each bool) (float64, error) {
	v := make([]float64, 0, requests)
	for range requests {
		if each {
			way.CloseIdleConnections()
		}
		took, err := timed(func() error { return p.get(way, 1000) })
		if err != nil {
			return 0, err
		}
		v = append(v, took)
	}
	return median(v), nil
}

// refilled is how long a server needs at most to have two launchers waiting again: it starts
// the next one 20 ms after a request.
const refilled = 100 * time.Millisecond

// startWithProxy returns how much longer a sandboxed command with a network proxy
// takes than one without a network. A command that may write nothing has no sockets of
// its own without a network, and those of workspace-write have. Both find two launchers
// waiting: the second of two starts in a row takes the last one, and the server starts
// another one at once, beside the command.
func startWithProxy(c *client, entries string) (float64, error) {
	confined := plain + "," + sandbox(entries, "/var/tmp")
	time.Sleep(refilled)
	without, err := timed(func() error { return runTrueIn(c, "/", "/usr/bin:/bin", confined) })
	if err != nil {
		return 0, err
	}
	time.Sleep(refilled)
	with, err := timed(func() error {
		return runTrueIn(c, "/", "/usr/bin:/bin", confined+`,"enforceManagedNetwork":true,`+network)
	})
	return with - without, err
}

// metrics are the lines of the table.
func (p *proxied) metrics() []metric {
	row := func(name string, a aim, f func(*http.Client) (float64, error)) metric {
		return metric{
			name: name, unit: "ms", aim: a, times: 1,
			run: func(s *server, c *client) (float64, error) {
				way, err := p.way(s, c)
				if err != nil {
					return 0, err
				}
				return f(way)
			},
			raw: func(context.Context) (float64, error) { return f(p.direct) },
		}
	}
	start := func(number int) metric {
		policy := policies[number]
		return metric{
			name: "a network proxy's part of a sandboxed start, " + policy.name, unit: "ms", aim: aim{most: 1}, times: 6,
			run: func(_ *server, c *client) (float64, error) { return startWithProxy(c, policy.entries) },
		}
	}
	return []metric{
		start(0), start(1),
		row("HTTPS request through a network proxy", aim{overRaw: 0.3}, func(way *http.Client) (float64, error) { return p.median(way, false) }),
		row("the same with a connection of its own", aim{overRaw: 0.3}, func(way *http.Client) (float64, error) { return p.median(way, true) }),
		row(fmt.Sprintf("%d MiB by HTTPS through a network proxy", p.z.web>>20), aim{ofRaw: 1 / 0.7}, func(way *http.Client) (float64, error) {
			return timed(func() error { return p.get(way, p.z.web) })
		}),
	}
}
