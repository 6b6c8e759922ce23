package rendezvous

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
)

// TestServerStatusPage opens the status page of a server in a browser without scripts, and ends a
// process there.
func TestServerStatusPage(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	file := filepath.Join(t.TempDir(), "tokens.json")
	token := func(role string) string {
		t.Helper()
		out, errs, code := harness.Run(t, "", "exec-server", "token", "create", "--tokens", file, "--role", role, "--principal", "ci")
		if code != 0 {
			t.Fatal(errs)
		}
		return strings.TrimSpace(out)
	}
	run, read := token("run"), token("read")
	env := []string{"XDG_STATE_HOME=" + t.TempDir()}
	_, url := harness.ServerWith(t, env, "--listen", "ws://127.0.0.1:0", "--ws-auth", "capability-token", "--ws-tokens", file)
	home, _ := harness.HomeDirectory(t, nil)
	remote := func(args ...string) string {
		t.Helper()
		out, errs, code := harness.RunWith(t, []string{"CODEX_EXEC_SERVER_CONNECTION_TOKEN=" + run}, home, "", append([]string{"remote", "--url", url}, args...)...)
		if code != 0 {
			t.Fatalf("%v: got exit code %d, stderr %s; want exit code 0", args, code, errs)
		}
		return out
	}
	const hostile = `echo begun; exec sleep 600 # <img src=x onerror=alert(1)>`
	remote("run", "--detach", "--name", "kept", "--", "sh", "-c", "exec sleep 600")
	user := harness.AtTerminalOf(t, "env", "CODEX_EXEC_SERVER_CONNECTION_TOKEN="+run, harness.Codex, "remote", "run", "--url", url, "-t", "--", "sh", "-c", hostile)
	user.Expect("begun")
	page := "http" + strings.TrimPrefix(strings.TrimSuffix(url, "/"), "ws") + "/status"

	p := b.open()
	p.call(p.session, "Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	b.trust(run)
	p.load(page, "codex exec-server")
	p.expect("codex-remote", "running", "detached/kept", "end…", hostile)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int{1000, 360} {
			p.lookAt("server", width, scheme)
		}
	}
	// The page asks for confirmation, which the user can cancel. Then it ends each process.
	for _, name := range []string{"detached/kept", "sh-"} {
		link := fmt.Sprintf(`[...document.querySelectorAll('th')].find(e => e.innerText.startsWith(%q)).querySelector('a').click()`, name)
		p.eval(link, nil)
		p.awaitPage("End this process?")
		p.eval(`document.querySelector('form a').click()`, nil)
		p.awaitPage("codex exec-server")
		p.eval(link, nil)
		p.awaitPage("End this process?")
		p.expect(name)
		p.lookAt("question", 360, "light")
		p.lookAt("question", 1000, "dark")
		p.eval(`document.querySelector('button').click()`, nil)
		p.awaitPage("codex exec-server")
	}
	if _, code := user.End(); code != 137 {
		t.Errorf("the command ended with %d", code)
	}
	testutil.Eventually(t.Context(), t, "the ends on the page", func() (string, bool) {
		p.load(page, "codex exec-server")
		text := p.ask(`document.body.innerText`)
		return text, strings.Contains(text, "closed: 137 terminated") && strings.Count(text, "end…") == 0
	})
	if list := remote("ps"); !strings.Contains(list, "exited 137") {
		t.Errorf("ps prints %s", list)
	}
	if errs := b.complaints(); len(errs) > 0 {
		t.Errorf("the page does not work well: %q", errs)
	}

	// A read-only token shows the same page without controls to end a process.
	reader := b.open()
	b.trust(read)
	reader.visit(page)
	reader.expect("detached/kept")
	if text := reader.read(); strings.Contains(text, "end…") {
		t.Errorf("a reader sees %q", text)
	}
}

// awaitPage waits until the browser shows a page with this heading.
func (p *page) awaitPage(heading string) {
	p.t.Helper()
	testutil.Eventually(p.t.Context(), p.t, "the page "+heading, func() (string, bool) {
		got := p.ask(`document.readyState === 'complete' && document.querySelector('h1') ? document.querySelector('h1').innerText : ''`)
		return got, got == heading
	})
}

// ask evaluates a script that returns a text. The text is empty while the browser leaves a page.
func (p *page) ask(script string) string {
	p.t.Helper()
	answer := make(chan browserMessage, 1)
	p.send(p.session, "Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true}, answer)
	var out struct{ Result struct{ Value string } }
	select {
	case m := <-answer:
		if m.Error == nil && json.Unmarshal(m.Result, &out) != nil {
			return ""
		}
	case <-time.After(harness.Patience):
		p.t.Fatalf("no answer to %s; %v", script, p.complaints())
	}
	return out.Result.Value
}

// load opens a URL on a page without scripts; visit needs scripts.
func (p *page) load(url, heading string) {
	p.t.Helper()
	p.call(p.session, "Page.navigate", map[string]any{"url": url}, nil)
	p.awaitPage(heading)
}

// lookAt checks that a page fits a screen, and saves a picture of it.
func (p *page) lookAt(name string, width int, scheme string) {
	p.t.Helper()
	p.show(width, scheme)
	what := fmt.Sprintf("%s-%s-%d", name, scheme, width)
	var wide int
	if p.eval(`document.documentElement.scrollWidth`, &wide); wide > width {
		p.t.Errorf("%s: the page is %d pixels wide", what, wide)
	}
	harness.Must(p.t, os.WriteFile(filepath.Join(p.t.ArtifactDir(), what+".png"), p.screenshot(), 0o600))
}
