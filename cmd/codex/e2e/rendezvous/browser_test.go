package rendezvous

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
)

// browserFlags make Chromium run without a screen, a profile or background traffic. They turn off
// its sandbox, which needs features that root and many containers lack, because the test opens only
// its own pages.
var browserFlags = []string{
	"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
	"--disable-background-networking", "--disable-component-update", "--disable-sync",
	"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-pipe",
}

// browser is a running Chromium that the test controls by the DevTools protocol over a pipe.
type browser struct {
	t   *testing.T
	out *os.File

	mu       sync.Mutex
	password string // the answer to a page that asks for a password; empty: cancel
	last     int    // id of the last call
	waiting  map[int]chan<- browserMessage
	requests map[string]int // number of requests, by URL
	errors   []string       // errors from the console, and unexpected events
	ended    error
}

// browserMessage is a response or an event.
type browserMessage struct {
	ID        int
	SessionID browserSession
	Method    string
	Params    json.RawMessage
	Result    json.RawMessage
	Error     *struct{ Message string }
}

// browserSession names the page that a message concerns; empty: the browser itself.
type browserSession string

// startBrowser runs Chromium until the test ends. If it is not installed the
// test is skipped, except in CI.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	binary, err := exec.LookPath("chromium")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("%v; apt-get install chromium", err)
	}
	testutil.Need(t, "chromium (apt-get install chromium)", err, exec.ErrNotFound)
	home := t.TempDir()
	cmd := exec.Command(binary, append(browserFlags, "--user-data-dir="+filepath.Join(home, "profile"), "about:blank")...)
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// Chromium reads from descriptor 3 and writes to 4.
	theirIn, out, err := os.Pipe()
	harness.Must(t, err)
	in, theirOut, err := os.Pipe()
	harness.Must(t, err)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	harness.Must(t, cmd.Start())
	_ = theirIn.Close()
	_ = theirOut.Close()
	b := &browser{t: t, out: out, waiting: map[int]chan<- browserMessage{}, requests: map[string]int{}}
	var reading sync.WaitGroup
	reading.Go(func() { b.routineRead(in) })
	t.Cleanup(func() {
		// Kill all its processes, so that none writes to its profile any more.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = out.Close()
		reading.Wait()
		_ = in.Close()
	})
	return b
}

// routineRead distributes the browser's messages until the browser ends.
func (b *browser) routineRead(in io.Reader) {
	messages := bufio.NewReader(in)
	for {
		data, err := messages.ReadBytes(0)
		if err == nil {
			var m browserMessage
			if err = json.Unmarshal(data[:len(data)-1], &m); err == nil {
				b.take(m)
				continue
			}
		}
		b.mu.Lock()
		b.ended = fmt.Errorf("the browser has ended: %w", err)
		for _, answer := range b.waiting {
			close(answer)
		}
		b.waiting = nil
		b.mu.Unlock()
		return
	}
}

// take passes a response to the waiting caller, or handles an event.
func (b *browser) take(m browserMessage) {
	if m.ID == 0 {
		b.event(m)
		return
	}
	b.mu.Lock()
	answer := b.waiting[m.ID]
	delete(b.waiting, m.ID)
	b.mu.Unlock()
	if answer != nil {
		answer <- m
	}
}

// event records the actions of a page, and answers questions that would block it.
func (b *browser) event(m browserMessage) {
	var p struct {
		RequestID string
		Request   struct{ URL string }
		Type      string
		Entry     struct{ Level, Text string }
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		b.complain("%s: %v", m.Method, err)
	}
	switch m.Method {
	case "Fetch.requestPaused":
		b.mu.Lock()
		b.requests[p.Request.URL]++
		b.mu.Unlock()
		b.send(m.SessionID, "Fetch.continueRequest", map[string]any{"requestId": p.RequestID}, nil)
	case "Fetch.authRequired":
		b.send(m.SessionID, "Fetch.continueWithAuth", map[string]any{"requestId": p.RequestID, "authChallengeResponse": b.credentials()}, nil)
	case "Log.entryAdded":
		if p.Entry.Level == "error" || p.Entry.Level == "warning" {
			b.complain("console: %s", p.Entry.Text)
		}
	case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Page.javascriptDialogOpening", "Inspector.targetCrashed":
		b.complain("%s: %s", m.Method, m.Params)
	}
}

// credentials returns the password only once: if a page asks again, the
// password was wrong.
func (b *browser) credentials() map[string]any {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.password == "" {
		return map[string]any{"response": "CancelAuth"}
	}
	password := b.password
	b.password = ""
	return map[string]any{"response": "ProvideCredentials", "username": "anybody", "password": password}
}

// trust makes the browser answer the next page that asks for a password.
func (b *browser) trust(password string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.password = password
}

func (b *browser) complain(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errors = append(b.errors, fmt.Sprintf(format, args...))
}

// complaints returns the errors since the last call.
func (b *browser) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.errors
	b.errors = nil
	return list
}

// asked returns the URLs that pages have requested.
func (b *browser) asked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.requests))
}

// send makes a call. The response, if needed, is sent to a buffered channel.
func (b *browser) send(session browserSession, method string, params any, answer chan<- browserMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	call := map[string]any{"id": b.last, "method": method}
	if params != nil {
		call["params"] = params
	}
	if session != "" {
		call["sessionId"] = session
	}
	data, err := json.Marshal(call)
	if err == nil && b.ended == nil {
		if answer != nil {
			b.waiting[b.last] = answer
		}
		_, err = b.out.Write(append(data, 0))
	}
	if err != nil || b.ended != nil {
		b.errors = append(b.errors, fmt.Sprintf("%s: %v, %v", method, err, b.ended))
		if answer != nil {
			delete(b.waiting, b.last)
			close(answer)
		}
	}
}

// call makes a call and stores the result.
func (b *browser) call(session browserSession, method string, params, result any) {
	b.t.Helper()
	answer := make(chan browserMessage, 1)
	b.send(session, method, params, answer)
	select {
	case m, ok := <-answer:
		if !ok || m.Error != nil {
			b.t.Fatalf("%s: got m.Error %+v, b.complaints() %v; want ok true, m.Error nil", method, m.Error, b.complaints())
		}
		if result != nil {
			harness.Must(b.t, json.Unmarshal(m.Result, result))
		}
	case <-time.After(harness.Patience):
		b.t.Fatalf("%s: no answer; %v", method, b.complaints())
	}
}

// page is a tab with its own cookies and passwords.
type page struct {
	*browser
	session browserSession
}

// open opens an empty tab.
func (b *browser) open() *page {
	b.t.Helper()
	var own struct{ BrowserContextID string }
	b.call("", "Target.createBrowserContext", nil, &own)
	var target struct{ TargetID string }
	b.call("", "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": own.BrowserContextID}, &target)
	var attached struct{ SessionID browserSession }
	b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p := &page{b, attached.SessionID}
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.call(p.session, domain+".enable", nil, nil)
	}
	p.call(p.session, "Fetch.enable", map[string]any{"handleAuthRequests": true}, nil)
	return p
}

// visit opens a URL and waits until it is loaded.
func (p *page) visit(url string) {
	p.t.Helper()
	var went struct{ ErrorText string }
	p.call(p.session, "Page.navigate", map[string]any{"url": url}, &went)
	if went.ErrorText != "" {
		p.t.Fatalf(`%s: got %s, want ""`, url, went.ErrorText)
	}
	p.eval(`new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', () => done()))`, nil)
}

// eval runs a script in the page, waits for its promise if it returns one, and
// stores the value.
func (p *page) eval(script string, value any) {
	p.t.Helper()
	var out struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	p.call(p.session, "Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true}, &out)
	if out.ExceptionDetails != nil {
		p.t.Fatalf("%s: got %s, want nil", script, out.ExceptionDetails)
	}
	if value != nil {
		harness.Must(p.t, json.Unmarshal(out.Result.Value, value))
	}
}

// show sets the width of the page in pixels, and the preferred colour scheme.
func (p *page) show(width int, scheme string) {
	p.t.Helper()
	p.call(p.session, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	p.call(p.session, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// screenshot returns a picture of the page, in PNG format.
func (p *page) screenshot() []byte {
	p.t.Helper()
	var shot struct{ Data string }
	p.call(p.session, "Page.captureScreenshot", nil, &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	harness.Must(p.t, err)
	return picture
}
