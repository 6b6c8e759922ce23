package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
	"github.com/gorilla/websocket"
)

// event is a line of an audit trail.
type event map[string]any

// eventsOf returns the lines of a trail's files, and checks that codex audit accepts them.
func eventsOf(t *testing.T, files ...string) (list []event) {
	t.Helper()
	if out, errs, code := harness.Run(t, "", append([]string{"audit", "verify"}, files...)...); code != 0 {
		t.Fatalf("audit verify: %d %s%s", code, out, errs)
	}
	return eventsSoFar(t, files...)
}

// eventsSoFar returns the lines of a trail's files while a server still writes them.
func eventsSoFar(t *testing.T, files ...string) (list []event) {
	t.Helper()
	for _, file := range files {
		text, err := os.ReadFile(file)
		harness.Must(t, err)
		for line := range strings.Lines(string(text)) {
			var e event
			harness.Must(t, json.Unmarshal([]byte(line), &e))
			list = append(list, e)
		}
	}
	return list
}

// wantEvent checks that an event of a kind has these members. The value of each is a regular expression for the member's text.
func wantEvent(t *testing.T, list []event, kind string, members map[string]string) {
	t.Helper()
	for _, e := range list {
		if e["event"] != kind {
			continue
		}
		matches := true
		for name, pattern := range members {
			text, err := json.Marshal(e[name])
			harness.Must(t, err)
			matches = matches && regexp.MustCompile("^(?:"+pattern+")$").Match(text)
		}
		if matches {
			return
		}
	}
	t.Errorf("no %s has %v in %v", kind, members, list)
}

// TestAuditKinds makes a client do each audited operation once. The trail has an event for each,
// with its members. It has paths and commands only if it is configured to have them.
func TestAuditKinds(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	harness.NeedSandbox(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	t.Cleanup(web.Close)
	for _, tt := range []struct {
		name    string
		options []string
		names   bool
	}{{"without names", nil, false}, {"with names", []string{"--audit-paths", "--audit-commands"}, true}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir, err := filepath.EvalSymlinks(t.TempDir())
			harness.Must(t, err)
			k := &auditKinds{t: t, web: web.URL, work: filepath.Join(dir, "work-secret"), names: tt.names}
			k.host, k.port, err = net.SplitHostPort(strings.TrimPrefix(web.URL, "http://"))
			harness.Must(t, err)
			harness.Must(t, os.MkdirAll(filepath.Join(k.work, "real"), 0o755))
			harness.Must(t, os.Symlink("real", filepath.Join(k.work, "link")))
			trail := filepath.Join(dir, "audit.log")
			server, url := harness.ServerWith(t, []string{"HTTP_PROXY=" + web.URL, "http_proxy=" + web.URL, "NO_PROXY=", "no_proxy="},
				append([]string{"--audit-log", trail, "--audit-key", filepath.Join(dir, "key")}, tt.options...)...)
			first := connectRaw(t, url)
			k.request(first)
			k.resume(url, first.session)
			k.reach(url)
			harness.Must(t, server.Process.Signal(os.Interrupt))
			harness.Must(t, server.Wait())
			k.want(eventsOf(t, trail))
			text, err := os.ReadFile(trail)
			harness.Must(t, err)
			for _, secret := range []string{"command-secret", "file-secret", "work-secret", "path-secret", "no/such"} {
				if named := strings.Contains(string(text), secret); named && (!tt.names || secret == "path-secret") {
					t.Errorf("the trail has %s", secret)
				}
			}
		})
	}
}

// auditKinds does each audited operation.
type auditKinds struct {
	t               *testing.T
	web, host, port string // a web server
	work            string // a directory
	names           bool   // the trail must have paths and commands
}

// request makes a request of each kind.
func (k *auditKinds) request(c *rawClient) {
	const about = `,"metadata":{"threadId":"thread-1","toolCallId":"call-1"}`
	c.output("p1", "exit 3 # command-secret", about, "")
	sandbox := func(denied string) string {
		return fmt.Sprintf(`,"sandbox":{"permissions":{"type":"managed","network":"restricted","file_system":{"type":"restricted","entries":[`+
			`{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"path","path":"file://%[1]s"},"access":"write"},`+
			`{"path":{"type":"path","path":"file://%[1]s/%[2]s"},"access":"deny"}]}},"cwd":"file://%[1]s"}`, k.work, denied)
	}
	c.output("p2", "true", about+sandbox("real"), "")
	c.output("p3", "true", about+sandbox("link"), "") // no backend can enforce such a policy
	c.call("process/start", `{"processId":"p4","argv":["/no/such/program"],"cwd":"file:///","env":{},"tty":false}`, "")
	file := "file://" + k.work + "/file-secret"
	c.call("fs/writeFile", fmt.Sprintf(`{"path":%q,"dataBase64":"eA=="}`, file), "")
	c.call("fs/writeFile", fmt.Sprintf(`{"path":"%s/none/file","dataBase64":"eA=="}`, file), "")
	c.call("tunnel/open", fmt.Sprintf(`{"tunnelId":1,"host":%q,"port":%s,"window":1}`, k.host, k.port), "")
	c.call("tunnel/listen", `{"listenerId":1,"port":0,"window":1}`, "")
	c.call("http/request", fmt.Sprintf(`{"requestId":"r","method":"GET","url":"%s/path-secret","headers":[]}`, k.web), "")
}

// resume takes over the session of a connection.
func (k *auditKinds) resume(url, session string) {
	ws, res, err := websocket.DefaultDialer.Dial(url, nil)
	harness.Must(k.t, err)
	_ = res.Body.Close()
	k.t.Cleanup(func() { _ = ws.Close() })
	c := &rawClient{t: k.t, conn: direct{ws}}
	if c.call("initialize", fmt.Sprintf(`{"clientName":"second","resumeSessionId":%q,"takeOver":true}`, session), ""); c.failure != "" {
		k.t.Errorf("resume a session: got %s, want success", c.failure)
	}
}

// reach makes sandboxed commands connect to hosts: to an allowed host, to a forbidden one, and to
// one that a person refuses.
func (k *auditKinds) reach(url string) {
	remote := func(args ...string) []string {
		return append([]string{"remote", "exec", "--url", url, "--cwd", k.work, "--sandbox", "read-only"}, args...)
	}
	_, _, _ = harness.Run(k.t, "", remote("--allow-domain", "a.test", "--", "bash", "-c", fetch+"fetch http://a.test/; fetch http://b.test/")...)
	u := harness.AtTerminal(k.t, remote("--ask-network", "--", "bash", "-c", fetch+"fetch http://c.test/")...)
	u.Expect(networkQuestion)
	u.Types("n\n")
	u.End()
}

// want searches for an event of each kind.
func (k *auditKinds) want(list []event) {
	const digest, session = `"[0-9a-f]{64}"`, `"[0-9a-f]{16}"`
	command, cwd, path, link, missing := "null", "null", "null", "null", `"no such file or directory"`
	if k.names {
		link, missing = `".*symlink.*"`, `".*/no/such/program"`
		command, cwd, path = `\["sh","-c","exit 3 # command-secret"\]`, `"/"`, `\[".*/work-secret/file-secret"\]`
	}
	all := map[string]string{"seq": `\d+`, "time": `"20.*Z"`, "prev": digest, "session": session, "principal": `".+"`}
	about := map[string]string{"threadId": `"thread-1"`, "toolCallId": `"call-1"`}
	for _, e := range []struct {
		kind    string
		more    map[string]string // further members of events of commands with metadata
		members map[string]string
	}{
		{"session.started", nil, map[string]string{"client": `"test"`, "peer": `".+"`}},
		{"session.resumed", nil, map[string]string{"client": `"second"`, "peer": `".+"`}},
		{"session.ended", nil, map[string]string{"reason": `".+"`}},
		{"process.started", about, map[string]string{"processId": `"p1"`, "sandbox": `"none"`, "policy": "null", "argv": command, "cwd": cwd}},
		{"process.started", about, map[string]string{"processId": `"p2"`, "sandbox": `"linuxSeccomp"`, "policy": digest}},
		{"process.ended", about, map[string]string{"processId": `"p1"`, "cause": `"exit"`, "exitCode": "3", "durationMs": `\d+`}},
		{"sandbox.refused", about, map[string]string{"processId": `"p3"`, "reason": link}},
		{"process.not_started", nil, map[string]string{"processId": `"p4"`, "reason": missing}},
		{"file.changed", nil, map[string]string{"method": `"fs/writeFile"`, "paths": path}},
		{"file.failed", nil, map[string]string{"method": `"fs/writeFile"`}},
		{"tunnel.opened", nil, map[string]string{"host": `"` + k.host + `"`, "port": k.port}},
		{"tunnel.listen", nil, map[string]string{"host": `".+"`}},
		{"http.request", nil, map[string]string{"method": `"GET"`, "host": `"` + k.host + `"`, "port": k.port}},
		{"network.decision", nil, map[string]string{"host": `"a.test"`, "port": "80", "decision": `"allow"`, "protocol": `"http.*"`}},
		{"network.decision", nil, map[string]string{"host": `"b.test"`, "decision": `"deny"`, "source": `".+"`, "reason": `".+"`}},
		{"network.approval", nil, map[string]string{"host": `"c.test"`, "decision": `"deny"`}},
	} {
		members := maps.Clone(all)
		maps.Copy(members, e.more)
		maps.Copy(members, e.members)
		wantEvent(k.t, list, e.kind, members)
	}
}

// TestAuditRotatesBySize: when a file is full, the server begins another one. All files together
// are one trail.
func TestAuditRotatesBySize(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	dir := t.TempDir()
	trail := filepath.Join(dir, "audit.log")
	server, url := harness.Server(t, "--audit-log", trail, "--audit-key", filepath.Join(dir, "key"), "--audit-commands", "--audit-max-bytes", fmt.Sprint(1<<20))
	c := connectRaw(t, url)
	long := strings.Repeat("x", 50<<10)
	const starts = 45 // enough for more than two files
	for i := range starts {
		c.output(fmt.Sprint("p", i), ": "+long, "", "")
	}
	harness.Must(t, server.Process.Signal(os.Interrupt))
	harness.Must(t, server.Wait())
	files, err := filepath.Glob(trail + ".2*")
	harness.Must(t, err)
	if len(files) < 2 {
		t.Errorf("there are %d older files", len(files))
	}
	numbers := regexp.MustCompile(`\d+$`)
	slices.SortFunc(files, func(a, b string) int {
		x, y := numbers.FindString(a), numbers.FindString(b)
		return len(x) - len(y) + strings.Compare(x, y)*2
	})
	ended := 0
	for _, e := range eventsOf(t, append(files, trail)...) {
		if e["event"] == "process.ended" {
			ended++
		}
	}
	if ended != starts {
		t.Errorf("the trail has the end of %d processes of %d", ended, starts)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Size() > 1<<20+128<<10 {
			t.Errorf("%s: got info %v, error %v; want no error, info.Size() at most %v", file, info, err, 1<<20+128<<10)
		}
	}
}

// serverOnDisk starts a server in its own mount namespace, in which dir is a small file system. It
// returns the path of dir that the test can use.
func serverOnDisk(t *testing.T, dir string, args ...string) (server *exec.Cmd, url, seen string) {
	t.Helper()
	err := exec.Command("unshare", "--mount", "true").Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && os.Geteuid() != 0 {
		err = fmt.Errorf("%w: %w", syscall.EPERM, exit)
	}
	testutil.Need(t, "mount namespace that this user may make", err, syscall.EPERM, exec.ErrNotFound)
	harness.Must(t, os.Mkdir(dir, 0o700))
	wrapper := filepath.Join(t.TempDir(), "codex")
	script := fmt.Sprintf("#!/bin/sh\nexec unshare --mount sh -c 'mount -t tmpfs -o size=256k,mode=0700 tmpfs %s && exec \"$0\" \"$@\"' %s \"$@\"\n", dir, harness.Codex)
	harness.Must(t, testutil.WriteProgram(wrapper, []byte(script)))
	server, url = harness.ServerOf(t, wrapper, args...)
	return server, url, fmt.Sprintf("/proc/%d/root%s", server.Process.Pid, dir)
}

// TestAuditOnFullDisk: when the disk is full, the server refuses new work or continues, depending
// on the option. The log reports this, the metrics count missing records, and the trail reports
// them when there is space again. No other records are missing.
func TestAuditOnFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	for _, goesOn := range []bool{false, true} {
		t.Run(fmt.Sprint("goes on ", goesOn), func(t *testing.T) {
			t.Parallel()
			auditOnFullDisk(t, goesOn)
		})
	}
}

func auditOnFullDisk(t *testing.T, goesOn bool) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disk")
	args := []string{"--audit-log", filepath.Join(dir, "audit.log"), "--audit-key", filepath.Join(t.TempDir(), "key")}
	if goesOn {
		args = append(args, "--audit-on-error", "continue")
	}
	server, url, seen := serverOnDisk(t, dir, args...)
	c := connectRaw(t, url)
	c.output("before", "true", "", "")
	fill(t, filepath.Join(seen, "filler"))
	ran, refused := startOnFullDisk(t, c)
	lost := func() string { return auditMetric(t, url, "events_lost_total") }
	if goesOn && ran != startsOnFullDisk || !goesOn && !strings.Contains(refused, "the audit log cannot be written") || strings.HasSuffix(lost(), " 0") {
		t.Errorf("%d commands ran, and one was refused: %q; %s", ran, refused, lost())
	}
	if got := auditMetric(t, url, "writable"); !strings.HasSuffix(got, " 0") {
		t.Errorf("got %s, want 0", got)
	}
	ready := http.StatusOK
	if !goesOn {
		ready = http.StatusServiceUnavailable
	}
	if got := readiness(t, url); got != ready {
		t.Errorf("/readyz: got status %d, want %d", got, ready)
	}
	// Reads work in both cases, because the trail does not record them.
	if r := c.call("fs/readDirectory", `{"path":"file:///"}`, ""); r == nil {
		t.Errorf("reading is refused: %s", c.failure)
	}
	harness.Must(t, os.Remove(filepath.Join(seen, "filler")))
	testutil.Eventually(t.Context(), t, "a server that is ready", func() (string, bool) {
		status, writable := readiness(t, url), auditMetric(t, url, "writable")
		return fmt.Sprint(status, writable), status == http.StatusOK && strings.HasSuffix(writable, " 1")
	})
	c.output("after", "true", "", "")
	missing := lost()
	trail := filepath.Join(t.TempDir(), "audit.log")
	text, err := os.ReadFile(filepath.Join(seen, "audit.log"))
	harness.Must(t, err)
	harness.Must(t, os.WriteFile(trail, text, 0o600))
	harness.Must(t, server.Process.Signal(os.Interrupt))
	harness.Must(t, server.Wait())
	list := eventsOf(t, trail)
	wantEvent(t, list, "process.started", map[string]string{"processId": `"before"`})
	wantEvent(t, list, "process.started", map[string]string{"processId": `"after"`})
	told, started := 0, 0
	for _, e := range list {
		if n, ok := e["lost"].(float64); ok && e["event"] == "log.lost" {
			told += int(n)
		}
		if id, _ := e["processId"].(string); e["event"] == "process.started" && strings.HasPrefix(id, "full") {
			started++
		}
	}
	if missing != fmt.Sprint("exec_server_audit_events_lost_total ", told) || goesOn && told == 0 {
		t.Errorf("the metrics say %s, and the trail %d", missing, told)
	}
	if !goesOn && started != ran {
		t.Errorf("%d commands ran, of which the trail has %d", ran, started)
	}
}

// auditMetric returns the line of a metric about the audit trail.
func auditMetric(t *testing.T, url, name string) string {
	t.Helper()
	text := metricsOf(t, "http"+strings.TrimPrefix(url, "ws")+"/metrics")
	return regexp.MustCompile(`(?m)^exec_server_audit_` + name + ` (\d+)$`).FindString(text)
}

// readiness returns the status of /readyz.
func readiness(t *testing.T, url string) int {
	t.Helper()
	res, err := http.Get("http" + strings.TrimPrefix(url, "ws") + "/readyz")
	harness.Must(t, err)
	_ = res.Body.Close()
	return res.StatusCode
}

// TestAuditFileIsRemoved: a command removes the trail. No later command runs before SIGHUP, and the next file records that
// the previous one was removed.
func TestAuditFileIsRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	trail := filepath.Join(dir, "audit.log")
	server, url := harness.Server(t, "--audit-log", trail, "--audit-key", filepath.Join(dir, "key"))
	run := func(args ...string) (string, int) {
		_, errs, code := harness.Run(t, "", append([]string{"remote", "run", "--url", url, "--"}, args...)...)
		return errs, code
	}
	if errs, code := run("rm", trail); code != 0 {
		t.Fatalf("rm: %d %s", code, errs)
	}
	if errs, code := run("true"); code == 0 || !strings.Contains(errs, "the audit log was changed by another program: it was removed; send SIGHUP") {
		t.Errorf("a command after that: got %d %s, want it refused", code, errs)
	}
	if got, tampered := readiness(t, url), auditMetric(t, url, "tampered_total"); got != http.StatusServiceUnavailable || !strings.HasSuffix(tampered, " 1") {
		t.Errorf("got status %d, %s; want %d, 1", got, tampered, http.StatusServiceUnavailable)
	}
	harness.Must(t, server.Process.Signal(syscall.SIGHUP))
	testutil.Eventually(t.Context(), t, "a server that is ready", func() (string, bool) {
		status := readiness(t, url)
		return fmt.Sprint(status), status == http.StatusOK
	})
	if errs, code := run("true"); code != 0 {
		t.Errorf("after SIGHUP: got %d %s, want 0", code, errs)
	}
	harness.Must(t, server.Process.Signal(os.Interrupt))
	harness.Must(t, server.Wait())
	older, err := filepath.Glob(trail + ".2*")
	harness.Must(t, err)
	wantEvent(t, eventsOf(t, append(older, trail)...), "log.tampered", map[string]string{"reason": `"it was removed"`})
}

// TestAuditToStdout: with --audit-log - the trail is on standard output, after the URL. codex audit can verify the
// captured output.
func TestAuditToStdout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	output := filepath.Join(dir, "output")
	out, err := os.Create(output)
	harness.Must(t, err)
	defer out.Close()
	server := exec.Command(harness.Codex, "exec-server", "--listen", "ws://127.0.0.1:0", "--audit-log", "-", "--audit-key", filepath.Join(dir, "key"))
	server.Stdout, server.Stderr = out, harness.ShownOnFailure(t)
	harness.Must(t, server.Start())
	t.Cleanup(func() { _ = server.Process.Kill() })
	read := func() string {
		text, err := os.ReadFile(output)
		harness.Must(t, err)
		return string(text)
	}
	testutil.Eventually(t.Context(), t, "the URL", func() (string, bool) { return read(), strings.Contains(read(), "\n") })
	url, _, _ := strings.Cut(read(), "\n")
	if _, errs, code := harness.Run(t, "", "remote", "run", "--url", url, "--", "sh", "-c", "exit 3"); code != 3 {
		t.Fatalf("got %d %s, want 3", code, errs)
	}
	harness.Must(t, server.Process.Signal(syscall.SIGHUP)) // SIGHUP does not end the server
	harness.Must(t, server.Process.Signal(os.Interrupt))
	harness.Must(t, server.Wait())
	trail := filepath.Join(dir, "trail")
	harness.Must(t, os.WriteFile(trail, []byte(strings.TrimPrefix(read(), url+"\n")), 0o600))
	list := eventsOf(t, trail)
	wantEvent(t, list, "log.opened", nil)
	wantEvent(t, list, "process.ended", map[string]string{"exitCode": "3", "cause": `"exit"`})
	for _, args := range [][]string{{"--audit-max-bytes", "2000000"}, {"--listen", "stdio"}} {
		if _, errs, code := harness.Run(t, "", append([]string{"exec-server", "--audit-log", "-"}, args...)...); code != 2 || !strings.Contains(errs, args[0]) {
			t.Errorf("with %v: got %d %s, want 2", args, code, errs)
		}
	}
}

// fill creates a file that fills its file system.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	harness.Must(t, err)
	for size := 4096; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	harness.Must(t, f.Close())
}

// startsOnFullDisk is the number of commands that startOnFullDisk starts: the last page of the
// trail may have space for some lines.
const startsOnFullDisk = 60

// startOnFullDisk starts commands one after the other until one is refused. It returns how many ran,
// and the error of the refused one.
func startOnFullDisk(t *testing.T, c *rawClient) (ran int, refused string) {
	t.Helper()
	for ran < startsOnFullDisk {
		id, marker := fmt.Sprint("full", ran), filepath.Join(t.TempDir(), "ran")
		if c.call("process/start", fmt.Sprintf(`{"processId":%q,"argv":["touch",%q],"cwd":"file:///","env":{"PATH":"/usr/bin:/bin"},"tty":false}`, id, marker), "") == nil {
			if _, err := os.Stat(marker); err == nil {
				t.Error("a command that was refused has run")
			}
			return ran, c.failure
		}
		c.follow(id)
		ran++
	}
	return ran, ""
}
