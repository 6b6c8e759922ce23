package rendezvous

import (
	"bufio"
	"bytes"
	"fmt"
	"image/png"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/natstest"
)

// hostileID contains every kind of character that the rules for ids permit.
const hostileID = `<img src=x onerror=alert(1)>&lt;"'<b>`

// read returns the text that a person sees on the page, with one blank for each sequence of blanks.
func (p *page) read() string {
	p.t.Helper()
	var text string
	p.eval(`document.body.innerText`, &text)
	return strings.Join(strings.Fields(text), " ")
}

// await waits until a person sees a text on the page.
func (p *page) await(want string) {
	p.t.Helper()
	p.eval(fmt.Sprintf(`new Promise(done => {
		const look = () => { if (document.body.innerText.replace(/\s+/g, ' ').includes(%q)) done() }
		new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true })
		look()
	})`, want), nil)
}

// expect checks that a person sees all the texts on the page.
func (p *page) expect(wants ...string) {
	p.t.Helper()
	text := p.read()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			p.t.Errorf("%q is missing in %q", want, text)
		}
	}
}

// TestStatusPage opens the page with a browser, as a user does.
func TestStatusPage(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	dir := t.TempDir()
	m := harness.Rendezvous(t, filepath.Join(dir, "tokens.json"))
	token := m.Token("--role", "both", "--environment", "*")
	executor := m.Dial(m.Register(token, "build-1"))
	offline := m.Register(token, "build-2")
	m.Register(token, hostileID)
	m.Stream(token, "build-1", executor, 10)
	describesItself(t, m, m, token)
	theirs := "codex-remote/" + version(t) + ": 1, 1 stream"

	p := b.open()
	b.trust(token)
	p.visit(m.URL + "/")
	p.await(theirs)
	p.expect("4 environments, 2 connected; 2 clients, 2 streams;", hostileID,
		"build-1 connected Go-http-client/1.1 1", "600.2 KiB in 11 frames", "300.2 KiB in 10 frames",
		"build-2 offline 0 0 0 B/s 0 B in 0 frames", " UTC from 127.0.0.1:", "not connected yet",
		"build-0 connected "+hostileName+" codex-exec-server/"+version(t)+" 1 "+theirs+" 1 ")
	p.eval(`window.loaded = 'once'`, nil)

	// The page shows changes without a reload.
	m.Dial(offline)
	p.await("build-2 connected")
	m.Register(token, "build-3")
	p.await("5 environments, 3 connected")
	p.await("KiB/s") // after ten seconds, over which the value is an average
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int{1000, 360} {
			p.look(width, scheme)
		}
	}
	scriptless := b.open()
	scriptless.call(scriptless.session, "Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	b.trust(token)
	scriptless.load(m.URL+"/", "rendezvous")
	scriptless.expect(hostileName, theirs)
	scriptless.lookAt("scriptless", 360, "light")
	harness.Must(t, executor.Close())
	p.await("build-1 offline Go-http-client/1.1 0 0")
	p.await("until 20")
	if errs := b.complaints(); len(errs) > 0 {
		t.Errorf("the page does not work well: %q", errs)
	}

	// If the service has ended, the page shows no changes. Without a state file, the next service
	// has no data.
	m.End()
	p.await("trying again")
	p.expect("5 environments")
	m = harness.Rendezvous(t, m.Tokens, "--listen", strings.TrimPrefix(m.URL, "http://"))
	p.await("1 environment, ") // the executor registers again
	if text := p.read(); strings.Contains(text, "trying again") {
		t.Errorf("after it came back: %q", text)
	}
	if _, errs, code := harness.Run(t, "", "rendezvous", "token", "revoke", "--tokens", m.Tokens, strings.Split(token, "_")[1]); code != 0 {
		t.Fatal(errs)
	}
	p.await("The token is no longer valid")
	var loaded string
	if p.eval(`window.loaded`, &loaded); loaded != "once" {
		t.Errorf("it was loaded again: %q", loaded)
	}
	if got := b.asked(); !slices.Equal(got, []string{m.URL + "/", m.URL + "/status"}) {
		t.Errorf("it has asked for %q", got)
	}
}

// hostileName is a name that an executor may choose.
const hostileName = `<script>alert(1)</script>&amp;"' box`

// describesItself starts an executor of the environment build-0 at a service, and a client that
// connects to it through another node.
func describesItself(t *testing.T, m, far *harness.Meeting, token string) {
	t.Helper()
	home, env := harness.HomeDirectory(t, nil)
	executor(t, append(env, "CODEX_RENDEZVOUS_TOKEN="+token), "--remote", m.URL, "--environment-id", "build-0", "--name", hostileName)
	client := exec.Command(harness.Codex, "remote", "--env", "build-0", "run", "--", "sh", "-c", "echo begun; exec sleep 600")
	client.Env, client.Dir, client.Stderr = registryEnv(env, far, token), home, harness.ShownOnFailure(t)
	out, err := client.StdoutPipe()
	harness.Must(t, err)
	harness.Must(t, client.Start())
	t.Cleanup(func() {
		_ = client.Process.Kill()
		_ = client.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "begun\n" {
		t.Fatalf("the command prints %q, %v", line, err)
	}
}

// TestStatusPageOfNodes compares the pages of both nodes of a service. Then it ends one node and
// checks the page of the other.
func TestStatusPageOfNodes(t *testing.T) {
	t.Parallel()
	nats := natstest.Start(t)
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	node := func() *harness.Meeting { return harness.Rendezvous(t, tokens, "--nats", nats.URL()) }
	near, far := node(), node()
	token := near.Token("--role", "both", "--environment", "*")
	near.Register(token, "build-1")
	describesItself(t, near, far, token)
	b := startBrowser(t)
	pages := make([]*page, 2)
	for i, m := range []*harness.Meeting{near, far} {
		pages[i] = b.open()
		b.trust(token)
		pages[i].visit(m.URL + "/status")
		pages[i].await("codex-remote/" + version(t) + ": 1, 1 stream")
		pages[i].expect("2 environments, 1 connected; 1 client, 1 stream;", hostileName, "codex-exec-server/"+version(t), " UTC from 127.0.0.1:", "not connected yet")
		pages[i].lookAt(fmt.Sprint("node-", i), 1000, "light")
	}
	testutil.Eventually(t.Context(), t, "the same on both pages", func() (string, bool) {
		one, two := pages[0].read(), pages[1].read()
		return one + "\n" + two, one == two
	})
	if errs := b.complaints(); len(errs) > 0 {
		t.Errorf("the pages do not work well: %q", errs)
	}
	harness.Must(t, near.Cmd.Process.Kill())
	_ = near.Cmd.Wait()
	pages[1].await("until its node was lost")
	pages[1].expect("build-0 offline", hostileName)
}

// look checks the layout of the page on a screen of this size.
func (p *page) look(width int, scheme string) {
	p.t.Helper()
	p.show(width, scheme)
	what := fmt.Sprintf("%s-%d", scheme, width)
	var wide int
	if p.eval(`document.documentElement.scrollWidth`, &wide); wide > width {
		p.t.Errorf("%s: the page is %d pixels wide", what, wide)
	}
	p.expect("build-1", "connected", hostileID, "frames")
	picture := p.screenshot()
	harness.Must(p.t, os.WriteFile(filepath.Join(p.t.ArtifactDir(), what+".png"), picture, 0o600))
	decoded, err := png.Decode(bytes.NewReader(picture))
	harness.Must(p.t, err)
	if red, _, _, _ := decoded.At(1, 1).RGBA(); (red > 0x8000) != (scheme == "light") {
		p.t.Errorf("%s: the background is %v", what, decoded.At(1, 1))
	}
}

// TestStatusPageNeedsAToken: without a token, the page only says that it needs one.
func TestStatusPageNeedsAToken(t *testing.T) {
	t.Parallel()
	m := harness.Rendezvous(t, filepath.Join(t.TempDir(), "tokens.json"))
	token := m.Token("--role", "both", "--environment", "build-*")
	m.Register(token, "build-1")
	id, secret, _ := strings.Cut(strings.TrimPrefix(token, "cxr_"), "_")
	b := startBrowser(t)
	for name, password := range map[string]string{
		"none": "", "unknown": "cxr_000000000000_" + secret, "wrong": "cxr_" + id + "_" + strings.Repeat("a", len(secret)), "no token": "password",
	} {
		req, err := http.NewRequest(http.MethodGet, m.URL+"/status", nil)
		harness.Must(t, err)
		if password != "" {
			req.SetBasicAuth("anybody", password)
		}
		res, err := http.DefaultClient.Do(req)
		harness.Must(t, err)
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusUnauthorized || res.Header.Get("WWW-Authenticate") == "" || strings.Contains(string(body), "build") {
			t.Errorf(`%s: got res.StatusCode %d, body %s, error %v; want no error, res.StatusCode %d, res.Header.Get("WWW-Authenticate") other than "", body without "build"`, name, res.StatusCode, body, err, http.StatusUnauthorized)
		}
		p := b.open()
		b.trust(password)
		p.visit(m.URL + "/status")
		if text := p.read(); text != strings.TrimSpace(string(body)) {
			t.Errorf("%s: a person reads %q", name, text)
		}
	}
}
