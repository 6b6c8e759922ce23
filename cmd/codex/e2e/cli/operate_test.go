package cli

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// TestServerInNumbers runs commands on a server with metrics and a log in JSON. The metrics, on a
// port of their own, count the commands, and each field of the log has one type.
func TestServerInNumbers(t *testing.T) {
	t.Parallel()
	log := &serverLog{}
	server, url := harness.ServerLogging(t, log, "--log-format", "json", "--log-level", "debug", "--metrics-listen", "127.0.0.1:0")
	for _, tt := range []struct {
		code int
		args []string
	}{
		{0, []string{"--", "echo", "here"}}, {3, []string{"--", "sh", "-c", "exit 3"}}, {127, []string{"--", "/no/such/program"}},
		{0, []string{"--sandbox", "read-only", "--", "true"}},
	} {
		if _, text, code := harness.Run(t, "", append([]string{"remote", "run", "--url", url}, tt.args...)...); code != tt.code {
			t.Fatalf("%v: got exit code %d, text:\n%s\nwant exit code %d", tt.args, code, text, tt.code)
		}
	}
	if text := metricsOf(t, "http"+strings.TrimPrefix(url, "ws")+"/metrics"); !strings.Contains(text, "exec_server_sessions_total 4\n") {
		t.Errorf("the metrics of the port:\n%s", text)
	}
	text := metricsOf(t, fmt.Sprint(log.await(t, "serving metrics")["url"]))
	for _, line := range []string{
		`exec_server_processes_started_total{sandbox="none"} 2`, `exec_server_processes_started_total{sandbox="linuxSeccomp"} 1`,
		`exec_server_processes_finished_total{result="success"} 2`, `exec_server_processes_finished_total{result="failure"} 1`,
		`exec_server_processes_finished_total{result="not_started"} 1`, `exec_server_connections_total{transport="websocket"} 4`,
		`exec_server_processes_ended_total{cause="exit"} 3`, `exec_server_processes_ended_total{cause="timeout"} 0`,
		`exec_server_remote_connected 0`, `exec_server_tunnels_active 0`, "process_open_fds ",
	} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("%s is missing in\n%s", line, text)
		}
	}
	if _, text, code := harness.Run(t, "", "remote", "ls", "--url", url, "/no/such/path"); code == 0 {
		t.Errorf("there is /no/such/path: %s", text)
	}
	checkMetrics(t, metricsOf(t, "http"+strings.TrimPrefix(url, "ws")+"/metrics"))
	meeting := harness.Rendezvous(t, filepath.Join(t.TempDir(), "tokens.json"))
	token := meeting.Token("--role", "both", "--environment", "*")
	meeting.Stream(token, "secret-environment", meeting.Dial(meeting.Register(token, "secret-environment")), 1)
	text = metricsOf(t, meeting.URL+"/metrics")
	checkMetrics(t, text)
	if strings.Contains(text, "secret-environment") || strings.Contains(text, strings.Split(token, "_")[1]) {
		t.Errorf("the metrics name an environment or a token:\n%s", text)
	}
	ended := log.await(t, "process ended")
	if ended["level"] != "INFO" || ended["exit_code"] != 0.0 || ended["bytes_out"] != 5.0 {
		t.Errorf(`got %v; want ended["level"] "INFO", ended["exit_code"] 0.0, ended["bytes_out"] 5.0`, ended)
	}
	harness.Must(t, server.Process.Signal(os.Interrupt))
	harness.Must(t, server.Wait())
	types := make(map[string]string)
	for _, record := range log.records(t) {
		for field, value := range record {
			is := fmt.Sprintf("%T", value)
			if was := types[field]; was != "" && was != is {
				t.Errorf("%s of %v is a %s, and a %s in other records", field, record, is, was)
			}
			types[field] = is
		}
	}
	if len(types) < 10 {
		t.Errorf("there are few fields: %v", types)
	}
}

// checkMetrics makes Prometheus check metrics. It also searches for label values that a client can
// choose, because their number would be unbounded.
func checkMetrics(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		for _, secret := range []string{"no/such", "echo", "exit", "sandbox=\"/", "read-only", "127.0.0.1"} {
			if strings.Contains(line, secret) && !strings.HasPrefix(line, "#") && !strings.Contains(line, `="exit`) {
				t.Errorf("a metric names %q: %s", secret, line)
			}
		}
		if name, _, ok := strings.Cut(line, " "); ok && !strings.HasPrefix(line, "#") {
			family, _, _ := strings.Cut(name, "{")
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if short, ok := strings.CutSuffix(family, suffix); ok && strings.Contains(text, "# TYPE "+short+" histogram\n") {
					family = short
				}
			}
			if !strings.Contains(text, "# HELP "+family+" ") || !strings.Contains(text, "# TYPE "+family+" ") {
				t.Errorf("%s has no HELP and TYPE", name)
			}
		}
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("%v; apt-get install prometheus", err)
	} else if err != nil {
		t.Logf("%v: not checked by it", err)
		return
	}
	cmd := exec.Command(promtool, "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

// metricsOf returns the metrics of the server at an address.
func metricsOf(t *testing.T, url string) string {
	t.Helper()
	web := http.Client{Timeout: harness.Patience}
	res, err := web.Get(url)
	harness.Must(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	harness.Must(t, err)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: got res.StatusCode %d, text %s; want res.StatusCode %d", url, res.StatusCode, text, http.StatusOK)
	}
	return string(text)
}

// TestAuditTrail: a server writes the requested operations to the trail, begins another file at
// SIGHUP, and hides the trail from sandboxed commands. codex audit detects each change of the trail.
func TestAuditTrail(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	dir := t.TempDir()
	trail, key, log := filepath.Join(dir, "audit.log"), filepath.Join(dir, "key.pem"), &serverLog{}
	server, url := harness.ServerLogging(t, log, "--log-format", "json", "--audit-log", trail, "--audit-key", key, "--audit-commands")
	run := func(want int, args ...string) string {
		t.Helper()
		out, text, code := harness.Run(t, "", args...)
		if code != want {
			t.Fatalf("%v: got exit code %d, stdout %s, text %s; want exit code %d", args, code, out, text, want)
		}
		return out
	}
	run(3, "remote", "run", "--url", url, "--", "sh", "-c", "exit 3")
	run(127, "remote", "run", "--url", url, "--", "/no/such/program")
	file := filepath.Join(dir, "file")
	harness.Must(t, os.WriteFile(file, []byte("x"), 0o600))
	run(0, "remote", "cp", "--url", url, file, ":"+file+".copy")
	harness.Must(t, server.Process.Signal(syscall.SIGHUP))
	old := ""
	harness.Eventually(t, "another file", func() []string {
		files, _ := filepath.Glob(trail + ".2*")
		if len(files) == 1 {
			old = files[0]
			return nil
		}
		return append(files, "one is wanted")
	})
	if _, text, code := harness.Run(t, "", "remote", "run", "--url", url, "--sandbox", "read-only", "--", "cat", trail, key); code == 0 {
		t.Errorf("a sandboxed command reads the trail and its key: %s", text)
	}
	harness.Must(t, server.Process.Signal(os.Interrupt))
	harness.Must(t, server.Wait())
	public := fmt.Sprint(log.await(t, "writing an audit trail")["key"])
	if out := run(0, "audit", "verify", "--key", public, old, trail); !strings.HasPrefix(out, "ok: records 1 to ") || strings.Contains(out, "no signature") {
		t.Errorf(`got %s; want a text beginning with "ok: records 1 to ", a text without "no signature"`, out)
	}
	whole := run(0, "audit", "verify", "--key", public, old, trail)
	last := regexp.MustCompile(`(?m)^last record: (\d+:[0-9a-f]{64})$`).FindStringSubmatch(whole)
	if last == nil {
		t.Fatalf("got %s, want it with the last record", whole)
	}
	run(0, "audit", "verify", "--key", public, "--expect", last[1], old, trail)
	if _, errs, code := harness.Run(t, "", "audit", "verify", "--key", public, "--expect", last[1], old); code != 1 || !strings.Contains(errs, "is missing: it was cut") {
		t.Errorf("without the newest file: got %d %s, want 1", code, errs)
	}
	out := run(0, "audit", "show", old, trail)
	for _, want := range []string{
		` session.started session=`, ` client=codex-remote `, ` process.started session=`, `sandbox=none argv=["sh","-c","exit 3"] cwd=`,
		` exitCode=3 `, ` process.not_started `, ` file.changed `, `sandbox=linuxSeccomp policy=`, " session.ended ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if strings.Contains(out, file+".copy") {
		t.Errorf("without --audit-paths there is a path:\n%s", out)
	}
	if out := run(0, "audit", "grep", "exitCode=3", old, trail); strings.Count(out, "\n") != 1 {
		t.Errorf("got %s, want strings.Count(out, \"\\n\") 1", out)
	}
	text, err := os.ReadFile(old)
	harness.Must(t, err)
	changed := filepath.Join(dir, "changed")
	harness.Must(t, os.WriteFile(changed, []byte(strings.Replace(string(text), `exit 3`, `exit 4`, 1)), 0o600))
	if _, text, code := harness.Run(t, "", "audit", "verify", changed, trail); code != 1 || !strings.Contains(text, changed+": line ") {
		t.Errorf("a changed trail: %d %s", code, text)
	}
}
