package tunnel

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
	"github.com/gorilla/websocket"
)

// viteVersion is the version that the test installs from the npm registry.
const viteVersion = "5.4.21"

// TestVite runs vite's development server in a sandbox without a network, with its port forwarded
// automatically. The page loads, and its websocket reports a changed file. The test downloads vite,
// so it runs only in CI, or with TEST_NPM=1.
func TestVite(t *testing.T) {
	t.Parallel()
	if os.Getenv("CI") != "true" && os.Getenv("TEST_NPM") == "" {
		t.Skip("it installs vite from the registry of npm: set TEST_NPM=1 to run it outside of CI")
	}
	harness.NeedSandbox(t)
	for _, program := range []string{"node", "npm"} {
		_, err := exec.LookPath(program)
		testutil.Need(t, program, err, exec.ErrNotFound)
	}
	workspace, _ := harness.Places(t)
	write := func(name, text string) {
		t.Helper()
		harness.Must(t, os.WriteFile(filepath.Join(workspace, name), []byte(text), 0o644))
	}
	write("package.json", `{"name":"page","private":true}`)
	write("index.html", `<!doctype html><script type="module" src="/main.js"></script>`)
	write("main.js", `document.title = "before"`)
	bound, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	install := exec.CommandContext(bound, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "vite@"+viteVersion)
	install.Dir = workspace
	install.Env = append(os.Environ(), "npm_config_cache="+t.TempDir())
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, out)
	}
	_, url := harness.Server(t)
	port := freePort(t)
	cmd := exec.Command(harness.Codex, "remote", "run", "--url", url, "-L", "auto", "--sandbox", "workspace-write", "--cwd", workspace,
		"--", "node", "node_modules/vite/bin/vite.js", "--port", fmt.Sprint(port), "--strictPort")
	cmd.Stdout = harness.ShownOnFailure(t)
	said := startLines(t, cmd)
	here := said.awaitForward(port)
	client := &http.Client{Timeout: time.Minute}
	defer client.CloseIdleConnections()
	if page := get(t, client, "http://"+here+"/"); !strings.Contains(page, "/@vite/client") {
		t.Errorf("the page is %q", page)
	}
	if script := get(t, client, "http://"+here+"/main.js"); !strings.Contains(script, "before") {
		t.Errorf("the script is %q", script)
	}
	token := regexp.MustCompile(`wsToken = "([^"]+)"`).FindStringSubmatch(get(t, client, "http://"+here+"/@vite/client"))
	if token == nil {
		t.Fatal("vite's client has no token")
	}
	dialer := websocket.Dialer{Subprotocols: []string{"vite-hmr"}, HandshakeTimeout: time.Minute}
	hmr, _, err := dialer.Dial("ws://"+here+"/?token="+token[1], http.Header{"Origin": {"http://" + here}})
	harness.Must(t, err)
	defer hmr.Close()
	harness.Must(t, hmr.SetReadDeadline(time.Now().Add(time.Minute)))
	await := func(text string) {
		t.Helper()
		for {
			_, message, err := hmr.ReadMessage()
			harness.Must(t, err)
			if strings.Contains(string(message), text) {
				return
			}
		}
	}
	await(`"connected"`)
	write("main.js", `document.title = "after"`)
	await(`"full-reload"`)
	if script := get(t, client, "http://"+here+"/main.js"); !strings.Contains(script, "after") {
		t.Errorf("the script is %q", script)
	}
}
