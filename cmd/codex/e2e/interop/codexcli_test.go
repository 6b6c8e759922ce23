//go:build interop

package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
)

// scriptedModel plays a model for Codex CLI. If the last message of the user has "Run: COMMAND", it
// calls a tool with the command. Then it answers with the output that it was told.
func scriptedModel(t *testing.T) (url string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			_, _ = io.WriteString(w, `{"models":[]}`)
			return
		}
		var asked struct {
			Input []struct {
				Type, Role string
				Output     any
				Content    any
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Errorf("a question to the model: %v", err)
		}
		item := map[string]any{"type": "message", "role": "assistant", "id": "m"}
		say := func(text string) { item["content"] = []any{map[string]any{"type": "output_text", "text": text}} }
		say("nothing to do")
		for _, i := range asked.Input {
			if text := fmt.Sprint(i.Content); i.Role == "user" && strings.Contains(text, "Run: ") {
				_, command, _ := strings.Cut(strings.TrimRight(text, "]"), "Run: ")
				command, _, _ = strings.Cut(command, " type:") // the rest of the content that is a map
				arguments, _ := json.Marshal(map[string]any{"cmd": command, "yield_time_ms": 20000})
				item = map[string]any{"type": "function_call", "call_id": "c", "name": "exec_command", "arguments": string(arguments)}
			}
			if i.Type == "function_call_output" {
				item = map[string]any{"type": "message", "role": "assistant", "id": "m"}
				say(fmt.Sprint(i.Output))
			}
		}
		w.Header().Set("Content-Type", "text/event-stream")
		usage := map[string]any{"input_tokens": 0, "input_tokens_details": nil, "output_tokens": 0, "output_tokens_details": nil, "total_tokens": 0}
		for _, event := range []map[string]any{
			{"type": "response.created", "response": map[string]any{"id": "r"}},
			{"type": "response.output_item.done", "item": item},
			{"type": "response.completed", "response": map[string]any{"id": "r", "usage": usage}},
		} {
			text, _ := json.Marshal(event)
			_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event["type"], text)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// configure writes a configuration of Codex CLI with the scripted model.
func configure(t *testing.T, home, model string) {
	t.Helper()
	harness.Must(t, os.WriteFile(filepath.Join(home, "config.toml"), []byte(`model = "mock-model"
model_provider = "mock"
[model_providers.mock]
name = "mock"
base_url = "`+model+`/v1"
wire_api = "responses"
requires_openai_auth = false
request_max_retries = 0
stream_max_retries = 0
[features]
unified_exec = true
`), 0o600))
}

// withoutCodex returns this program's environment without variables of Codex CLI and of proxies.
func withoutCodex(more ...string) []string {
	return append(slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return strings.HasPrefix(name, "CODEX_") || strings.HasPrefix(name, "OPENAI_") || strings.HasSuffix(strings.ToUpper(name), "_PROXY")
	}), more...)
}

// inTheOpen returns a directory that is not for temporary files: Codex CLI treats those otherwise.
func inTheOpen(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "codex-cli")
	harness.Must(t, err)
	t.Cleanup(func() { _ = harness.RemoveAll(dir) })
	return dir
}

// TestUpstreamReadsEnvironments has a release of Codex CLI run a command in an environment of each form
// that codex environments add writes.
func TestUpstreamReadsEnvironments(t *testing.T) {
	dir, model := inTheOpen(t), scriptedModel(t)
	path := func(name string) string { return filepath.Join(dir, name) }
	harness.Must(t, os.WriteFile(path("token"), []byte(strings.Repeat("secret", 6)), 0o600))
	harness.Must(t, testutil.WriteProgram(path("ssh"), []byte("#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nexec sh -c \"$3\"\n")))
	certificates(t, dir)
	tls := []string{"--tls-cert", path("server.pem"), "--tls-key", path("server.key")}
	tokens := []string{"--ws-auth", "capability-token", "--ws-token-file", path("token")}
	_, port := harness.Server(t)
	_, withToken := harness.Server(t, tokens...)
	_, socket := harness.ServerWith(t, nil, "--listen", "unix://"+path("socket"))
	_, own := harness.ServerWith(t, nil, slices.Concat([]string{"--listen", "wss://127.0.0.1:0"}, tls, tokens)...)
	_, both := harness.ServerWith(t, nil, slices.Concat([]string{"--listen", "wss://127.0.0.1:0"}, tls, []string{"--tls-client-ca", path("ca.pem")})...)
	meeting := harness.Rendezvous(t, path("tokens.json"), tls[0], tls[1], tls[2], tls[3])
	harness.Must(t, os.WriteFile(path("harness"), []byte(meeting.Token("--role", "harness", "--environment", "*")), 0o600))
	executor := exec.Command(harness.Codex, "exec-server", "--remote", meeting.URL, "--environment-id", "box")
	executor.Env = withoutCodex("CODEX_CA_CERTIFICATE="+path("ca.pem"), "CODEX_RENDEZVOUS_TOKEN="+meeting.Token("--role", "executor", "--environment", "*"))
	executor.Stderr = harness.ShownOnFailure(t)
	harness.Must(t, executor.Start())
	t.Cleanup(func() {
		_ = executor.Process.Kill()
		_ = executor.Wait()
	})

	work := path("work")
	harness.Must(t, os.Mkdir(work, 0o755))
	for name, args := range map[string][]string{
		"a port":             {"--url", port},
		"a token":            {"--url", withToken, "--token-file", path("token")},
		"a socket":           {"--url", socket},
		"an authority":       {"--url", own, "--ca", path("ca.pem"), "--token-file", path("token")},
		"a certificate":      {"--url", both, "--ca", path("ca.pem"), "--client-cert", path("client.pem"), "--client-key", path("client.key")},
		"rendezvous":         {"--rendezvous", meeting.URL, "--environment-id", "box", "--ca", path("ca.pem"), "--token-file", path("harness")},
		"ssh":                {"--ssh", "me@build", "--codex", harness.Codex},
		"nothing, but local": {"--url", "ws://127.0.0.1:1", "--keep-local"},
		"nothing":            {"--url", "ws://127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			home, err := os.MkdirTemp(dir, "home")
			harness.Must(t, err)
			configure(t, home, model)
			env := withoutCodex("CODEX_HOME="+home, "PATH="+dir+":"+os.Getenv("PATH"))
			if _, errs, code := harness.RunWith(t, env, home, "", append([]string{"environments", "add", "x", "--default"}, args...)...); code != 0 {
				t.Fatalf("add: %d %s", code, errs)
			}
			if name == "rendezvous" {
				harness.Eventually(t, "the executor is connected", func() []string {
					if out, _, code := harness.RunWith(t, env, home, "", "environments", "check"); code != 0 {
						return []string{out}
					}
					return nil
				})
			}
			cmd := exec.Command(os.Getenv("CODEX_UPSTREAM"), "exec", "--skip-git-repo-check", "-s", "danger-full-access", "-C", work,
				`Run: tr "\0" " " < /proc/$PPID/cmdline`)
			cmd.Env = env
			timer := time.AfterFunc(harness.Patience, func() { _ = cmd.Process.Kill() })
			defer timer.Stop()
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("Codex CLI: got error %v, stderr and stdout %s; want no error", err, out)
			}
			here, there := bytes.Contains(out, []byte(" exec --skip-git-repo-check ")), bytes.Contains(out, []byte(" exec-server"))
			if wantHere := name == "nothing, but local"; here != wantHere || there == (wantHere || name == "nothing") {
				t.Errorf("ran on this machine: %v, want %v; ran on a server: %v; Codex CLI printed %s", here, wantHere, there, out)
			}
		})
	}
}

// certificates makes an authority, and certificates of a server and of a client for 127.0.0.1.
func certificates(t *testing.T, dir string) {
	t.Helper()
	script := `umask 077; key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"; echo subjectAltName=IP:127.0.0.1 > names
openssl req -x509 $key -keyout ca.key -out ca.pem -days 2 -subj /CN=authority
for name in server client; do
	openssl req $key -keyout $name.key -out $name.csr -subj /CN=$name
	openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out $name.pem
done`
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make certificates: got error %v, output %s; want no error", err, out)
	}
}

// TestUpstreamPage types the commands of docs/codex-cli.md, in order, and compares the output. A line
// of dots stands for any lines, and dots in a line for any text. devbox has a host name and a project
// directory of its own. A section "since 0.169.0" is left out for 0.142.0.
func TestUpstreamPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(harness.Repository, "docs/codex-cli.md"))
	harness.Must(t, err)
	old := strings.Contains(os.Getenv("CODEX_UPSTREAM"), "0.142.0")
	p := newPage(t)
	commands, left := 0, false
	lines := strings.Split(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		if strings.HasPrefix(lines[i], "#") {
			left = old && strings.HasSuffix(lines[i], "since 0.169.0")
		}
		m := pageCommand.FindStringSubmatch(lines[i])
		if m == nil || left {
			continue
		}
		var want []string
		for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "    ") && !pageCommand.MatchString(lines[i+1]) {
			i++
			want = append(want, strings.TrimPrefix(lines[i], "    "))
		}
		commands++
		p.types(m[1], m[2], want)
	}
	if commands < 20 {
		t.Errorf("the page has %d commands only", commands)
	}
}

var pageCommand = regexp.MustCompile(`^    (laptop|devbox|meet)\$ (.*)$`)

// page is a person with the three machines of the page.
type page struct {
	t        *testing.T
	places   *strings.Replacer // from names of the page to names of this test
	machines map[string]*machine
}

// machine is a shell.
type machine struct {
	in    io.WriteCloser
	lines chan string // what is printed
}

func newPage(t *testing.T) *page {
	t.Helper()
	dir, project := inTheOpen(t), inTheOpen(t)
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"laptop/.codex", "devbox/.codex", "meet/.codex", "bin", "laptop-bin"} {
		harness.Must(t, os.MkdirAll(path(name), 0o700))
	}
	configure(t, path("laptop/.codex"), scriptedModel(t))
	harness.Must(t, os.WriteFile(filepath.Join(project, "README"), []byte("Hello.\n"), 0o644))
	if out, err := exec.Command("git", "init", "-q", project).CombinedOutput(); err != nil { // Codex CLI works in repositories
		t.Fatalf("git init: %v: %s", err, out)
	}
	harness.Must(t, os.Symlink(harness.Codex, path("bin/codex-go")))
	harness.Must(t, os.Symlink(os.Getenv("CODEX_UPSTREAM"), path("laptop-bin/codex")))
	// ssh runs a command on devbox, and scp copies from the home directory there.
	user := ""
	if os.Geteuid() != 0 {
		user = " -U --preserve-credentials"
	}
	harness.Must(t, testutil.WriteProgram(path("bin/ssh"), []byte("#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\n"+
		"exec nsenter -t $(cat "+path("devbox.pid")+") -m -u"+user+" env HOME="+path("devbox")+" PATH=/usr/bin:/bin sh -c \"cd; $3\"\n")))
	harness.Must(t, testutil.WriteProgram(path("bin/scp"), []byte("#!/bin/sh\nset -e; shift 2\nwhile [ $# -gt 1 ]; do\n"+
		"\tfrom=${1#me@}; machine=${from%%.*}; case $1 in localhost:*|me@localhost:*) machine=devbox;; esac\n"+
		"\t[ -e "+dir+"/$machine/${from#*:} ] || machine=meet\n\tfor last; do :; done\n\tcp -p "+dir+"/$machine/${from#*:} \"$last\"\n\tshift\ndone\n")))
	meeting := freePort(t)
	p := &page{t: t, machines: map[string]*machine{}, places: strings.NewReplacer(
		"127.0.0.1:8766", fmt.Sprintf("127.0.0.1:%d", meeting), "127.0.0.1/8766", fmt.Sprintf("127.0.0.1/%d", meeting), ":8765", fmt.Sprintf(":%d", freePort(t)),
		"devbox.example", "localhost", "meet.example", "localhost", "/srv/project", project, "/home/me", path("laptop"),
	)}
	unshare := []string{"unshare", "-mu", "--propagation", "private"}
	if user != "" {
		unshare[1] = "-rmu"
	}
	for _, name := range []string{"laptop", "meet", "devbox"} {
		argv, first := []string{"bash", "--norc", "--noprofile"}, "cd\n"
		if name == "devbox" {
			argv = append(unshare, argv...)
			first = "hostname devbox && mount -t tmpfs none " + project + " && echo $$ > " + path("devbox.pid") + "\n" + first
		}
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = path(name)
		cmd.Env = withoutCodex("HOME="+path(name), "PATH="+path("bin")+":"+path("laptop-bin")+":"+os.Getenv("PATH"), "NO_PROXY=127.0.0.1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		in, err := cmd.StdinPipe()
		harness.Must(t, err)
		r, w, err := os.Pipe()
		harness.Must(t, err)
		cmd.Stdout, cmd.Stderr = w, w
		harness.Must(t, cmd.Start())
		harness.Must(t, w.Close())
		m := &machine{in: in, lines: make(chan string, 10000)}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for s := bufio.NewScanner(r); s.Scan(); {
				m.lines <- s.Text()
			}
		}()
		t.Cleanup(func() {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait()
			_ = r.Close()
			<-done
		})
		_, err = io.WriteString(in, first)
		harness.Must(t, err)
		p.machines[name] = m
	}
	harness.Eventually(t, "devbox is ready", func() []string {
		if text, err := os.ReadFile(path("devbox.pid")); err != nil || len(text) == 0 {
			return []string{"it has written no process id"}
		}
		return nil
	})
	return p
}

// freePort returns a port at which nothing listens.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	harness.Must(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// types types a command, waits for its end and compares the output. Of a program in the background, it
// waits for the last line that the page shows.
func (p *page) types(name, line string, want []string) {
	p.t.Helper()
	m := p.machines[name]
	const end = "== end of the command =="
	if _, err := io.WriteString(m.in, "{ "+p.places.Replace(line)+"\n} < /dev/null; echo; echo '"+end+"'\n"); err != nil {
		p.t.Fatalf("%s$ %s: got error %v typing it, want no error", name, line, err)
	}
	pattern := p.pattern(want)
	var seen []string
	ended, deadline := false, time.After(harness.Patience)
	for {
		text := plain(strings.Join(seen, "\n"))
		if !strings.Contains(strings.Join(want, ""), "msg=") {
			text = harness.WithoutLog(text) // of programs in the background
		}
		if ended && (pattern.MatchString(text) || !strings.HasSuffix(line, "&")) {
			if !pattern.MatchString(text) {
				p.t.Errorf("%s$ %s: got\n%s\nwant\n%s", name, line, text, strings.Join(want, "\n"))
			}
			return
		}
		select {
		case l := <-m.lines:
			if ended = ended || l == end; l != end {
				seen = append(seen, l)
			}
		case <-deadline:
			p.t.Fatalf("%s$ %s: got\n%s\nand no end, or not\n%s", name, line, text, strings.Join(want, "\n"))
		}
	}
}

// pattern returns a pattern for the output as plain returns it.
func (p *page) pattern(want []string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`\A`)
	for _, line := range strings.Split(plain(p.places.Replace(strings.Join(want, "\n"))), "\n") {
		switch parts := strings.Split(line, "..."); {
		case line == "...":
			b.WriteString(`(?:[^\n]*\n)*`)
		case line != "":
			for i := range parts {
				parts[i] = regexp.QuoteMeta(parts[i])
			}
			b.WriteString(strings.Join(parts, `[^\n]*`) + `\n`)
		}
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}

// plain returns the lines of a text that are not empty, with one blank between their words.
func plain(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			b.WriteString(strings.Join(words, " ") + "\n")
		}
	}
	return b.String()
}
