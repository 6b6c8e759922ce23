package cli

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
)

// networkQuestion is the end of the question about a host.
const networkQuestion = "Let it reach this host and port?\r\n  [y] yes, once   [s] yes, for this session   [n] never   > "

// fetch is a script with a function that requests a URL through the command's proxy and prints the
// status. The function fails if the status is not 200. The shell must be bash.
const fetch = `fetch() {
  rest=${1#http://}
  exec 3<>"/dev/tcp/127.0.0.1/${HTTP_PROXY##*:}"
  printf 'GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$1" "${rest%%/*}" >&3
  IFS= read -r version_status_text <&3
  exec 3<&-
  set -- $version_status_text
  echo "status $2"
  test "$2" = 200
}
`

// outside starts a server of codex that reaches every name without a resolver, because it uses a
// proxy from its environment. port is that proxy's port on 127.0.0.1.
func outside(t *testing.T) (url string, port string) {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	t.Cleanup(web.Close)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(web.URL, "http://"))
	harness.Must(t, err)
	// The client reaches the server directly.
	_, url = harness.ServerWith(t, []string{"HTTP_PROXY=" + web.URL, "http_proxy=" + web.URL, "NO_PROXY=", "no_proxy="})
	return url, port
}

// TestPortsOfAllowedDomains: with a pattern that has a port, a command can reach this port of the
// host and no other.
func TestPortsOfAllowedDomains(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	url, port := outside(t)
	for name, tt := range map[string]struct {
		allow string
		want  string
	}{
		"the port of an address": {"127.0.0.1:" + port, "status 200\nstatus 403\n"},
		"another port":           {"127.0.0.1:1", "status 403\nstatus 403\n"},
		"another host":           {"127.0.0.2:" + port, "status 403\nstatus 403\n"},
		"a name":                 {"a.test:8080", "status 403\nstatus 200\n"},
		"another port of it":     {"a.test:80", "status 403\nstatus 403\n"},
		"every port":             {"a.test", "status 403\nstatus 200\n"},
	} {
		out, errs, code := harness.Alone(t, nil, "remote", "run", "--url", url, "--sandbox", "read-only", "--allow-domain", tt.allow, "--",
			"bash", "-c", fetch+fmt.Sprintf("fetch http://127.0.0.1:%s/; fetch http://a.test:8080/; true", port))
		if out != tt.want || code != 0 {
			t.Errorf("%s: exit code %d, %q, %q, want %q", name, code, out, errs, tt.want)
		}
	}
}

// TestRemoteNetwork: --network leaves the network on in the sandbox.
func TestRemoteNetwork(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	_, url := harness.Server(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	harness.Must(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	harness.Must(t, err)
	for _, command := range []string{"run", "exec"} {
		for _, sandbox := range []string{"read-only", "workspace-write"} {
			workspace, _ := harness.Places(t)
			for _, network := range []string{"", "--network"} {
				args := []string{"remote", command, "--url", url, "--cwd", workspace, "--sandbox", sandbox}
				if network != "" {
					args = append(args, network)
				}
				_, errs, code := harness.Alone(t, nil, append(args, "--", "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/"+port)...)
				if (code == 0) != (network != "") {
					t.Errorf("%s %s %q: exit code %d, %q", command, sandbox, network, code, errs)
				}
			}
		}
	}
}

// TestAskNetwork gives each answer to questions about hosts.
func TestAskNetwork(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel() // the test waits until keys count as an answer
	harness.NeedSandbox(t)
	url, _ := outside(t)
	workspace, _ := harness.Places(t)
	script := fetch + "fetch http://a.test/; fetch http://a.test/; fetch http://b.test:81/; true"
	for _, tt := range []struct {
		name string
		keys []string // one answer for each question
		want string
	}{
		{"once, and never, and no", []string{"y\n", "n\n", "\n"}, "status 200 status 403 status 403 "},
		{"for the session", []string{"S\n", "yes\n"}, "status 200 status 200 status 200 "},
		{"never", []string{"n\n", "y\n"}, "status 403 status 403 status 200 "},
		{"no answer, twice", []string{"\n", "yes, please\n", "never\n"}, "status 403 status 403 status 403 "},
		{"the end of the input", []string{"\x04", "\x04", "\x04"}, "status 403 status 403 status 403 "},
	} {
		for _, command := range [][]string{{"run"}, {"exec", "--tty"}} {
			args := append(append([]string{"remote"}, command...), "--url", url, "--cwd", workspace, "--sandbox", "read-only", "--ask-network")
			u := harness.AtTerminal(t, append(args, "--", "bash", "-c", script)...)
			seen := ""
			for i, keys := range tt.keys {
				text := u.UpTo(networkQuestion)
				if i == 0 && !strings.Contains(text, "network: the command wants to reach a.test port 80 (http)\r\n  environment: remote   cwd: "+workspace) {
					t.Errorf("%s %q: the first question is %q", tt.name, command, text)
				}
				if i == len(tt.keys)-1 && !strings.Contains(text, "wants to reach b.test port 81 (http)") {
					t.Errorf("%s %q: the last question is %q", tt.name, command, text)
				}
				seen += text
				u.Types(keys)
			}
			rest, code := u.End()
			if got := statuses(seen + rest); got != tt.want || code != 0 {
				t.Errorf("%s %q: exit code %d, %q, want %q\n%q", tt.name, command, code, got, tt.want, seen+rest)
			}
		}
	}
}

// statuses returns the output of fetch.
func statuses(screen string) (got string) {
	for _, line := range strings.Split(screen, "\n") {
		if status, found := strings.CutPrefix(strings.TrimSpace(line), "status "); found {
			got += "status " + status + " "
		}
	}
	return got
}

// asking starts a script at a terminal, with questions about hosts.
func asking(t *testing.T, url, script string, options ...string) *harness.User {
	t.Helper()
	args := append([]string{"remote", "exec", "--url", url, "--ask-network"}, options...)
	return harness.AtTerminal(t, append(args, "--", "bash", "-c", fetch+script)...)
}

// TestNetworkQuestionsAreSafe: a command cannot change a question and its answer by its output, by
// keys in the terminal's queue, or by the name of a host.
func TestNetworkQuestionsAreSafe(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel() // the test waits until keys count as an answer
	harness.NeedSandbox(t)
	url, _ := outside(t)
	t.Run("typed ahead", func(t *testing.T) {
		u := asking(t, url, "echo begun; fetch http://a.test/")
		u.Types("y\ny\n")
		u.Expect(networkQuestion)
		u.Types("n\n")
		if rest, code := u.End(); code != 1 || statuses(rest) != "status 403 " {
			t.Errorf("exit code %d, %q", code, rest)
		}
	})
	t.Run("what the command writes meanwhile", func(t *testing.T) {
		workspace, _ := harness.Places(t)
		u := asking(t, url, "{ fetch http://a.test/; } & until test -e go; do :; done; echo over the 'question'; echo > wrote; wait $!",
			"--cwd", workspace, "--sandbox", "workspace-write")
		u.Expect(networkQuestion)
		harness.Must(t, os.WriteFile(workspace+"/go", nil, 0o644))
		harness.Eventually(t, "the command writes", func() []string {
			if _, err := os.Stat(workspace + "/wrote"); err != nil {
				return []string{err.Error()}
			}
			return nil
		})
		u.Types("y\n")
		rest, code := u.End()
		if code != 0 || statuses(rest) != "status 200 " || !strings.HasPrefix(rest, "y\r\nover the question\r\n") {
			t.Errorf("exit code %d, %q", code, rest)
		}
	})
	t.Run("letters of another script", func(t *testing.T) {
		// A server without an upstream proxy resolves names itself, but only after the question.
		_, url := harness.Server(t)
		u := asking(t, url, "fetch 'http://p\u0430ypal.test\u202e/'")
		u.Expect(`the command wants to reach p\u0430ypal.test\u202e port 80 (http)`)
		u.Expect(networkQuestion)
		u.Types("n\n")
		if rest, code := u.End(); code != 1 {
			t.Errorf("exit code %d, %q", code, rest)
		}
	})
	t.Run("a program that knows no proxy", func(t *testing.T) {
		u := asking(t, url, "exec 3<>/dev/tcp/a.test/22; IFS= read -r line <&3; echo end", "--sandbox", "read-only")
		u.Expect("the command wants to reach a.test port 22 (")
		u.Expect(networkQuestion)
		u.Types("n\n")
		if rest, code := u.End(); code != 0 || !strings.Contains(rest, "end") {
			t.Errorf("exit code %d, %q", code, rest)
		}
	})
	t.Run("the input of the command", func(t *testing.T) {
		u := asking(t, url, "fetch http://a.test/; read line; echo got $line")
		u.Expect(networkQuestion)
		u.Types("y\n")
		u.Expect("status 200")
		u.Types("for the command\n")
		if rest, code := u.End(); code != 0 || !strings.Contains(rest, "got for the command") {
			t.Errorf("exit code %d, %q", code, rest)
		}
	})
}

// TestNetworkQuestionsEnd: a question disappears when the command ends, and after an interrupt,
// which the command gets as well. A command can cause only a limited number of questions.
func TestNetworkQuestionsEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel() // the test waits until keys count as an answer
	harness.NeedSandbox(t)
	url, _ := outside(t)
	t.Run("the command ends", func(t *testing.T) {
		workspace, _ := harness.Places(t)
		u := asking(t, url, "{ fetch http://a.test/; } & until test -e go; do :; done; kill -9 $!; exit 3", "--ask", "never", "--cwd", workspace)
		u.Expect(networkQuestion)
		harness.Must(t, os.WriteFile(workspace+"/go", nil, 0o644))
		if rest, code := u.End(); code != 3 {
			t.Errorf("exit code %d, %q", code, rest)
		}
	})
	t.Run("the time is over", func(t *testing.T) {
		u := asking(t, url, "fetch http://a.test/", "--timeout", "2s")
		u.Expect(networkQuestion)
		if rest, code := u.End(); code != 124 {
			t.Errorf("exit code %d, %q", code, rest)
		}
	})
	t.Run("an interrupt", func(t *testing.T) {
		u := asking(t, url, "trap 'echo interrupted; exit 9' INT; fetch http://a.test/; sleep 100")
		u.Expect(networkQuestion)
		u.Types("\x03")
		u.Expect("interrupted")
		if rest, code := u.End(); code != 9 {
			t.Errorf("exit code %d, %q", code, rest)
		}
	})
	t.Run("a flood", func(t *testing.T) {
		const most = 32
		u := asking(t, url, fmt.Sprintf("for i in {1..%d}; do fetch http://host$i.test/; done; true", most+3))
		for range most {
			u.Expect(networkQuestion)
			u.Types("n\n")
		}
		rest, code := u.End()
		if code != 0 || strings.Count(rest, "codex: the command asks for more than 32 hosts") != 1 || strings.Contains(rest, networkQuestion) {
			t.Errorf("exit code %d, %q", code, rest)
		}
	})
}

// TestNetworkAnswersOfASession: s and n also apply to later commands of --shell. If the user
// refused a host, the client does not ask about the sandbox for that reason.
func TestNetworkAnswersOfASession(t *testing.T) {
	t.Parallel() // the test waits until keys count as an answer
	harness.NeedSandbox(t)
	url, _ := outside(t)
	workspace, _ := harness.Places(t)
	script := workspace + "/fetch"
	harness.Must(t, testutil.WriteProgram(script, []byte("#!/bin/bash\n"+fetch+"fetch $1\n")))
	u := harness.AtTerminal(t, "remote", "exec", "--url", url, "--cwd", workspace, "--shell", "--ask-network")
	for _, tt := range []struct{ host, keys, want string }{
		{"a", "s\n", "200"}, {"b", "n\n", "403"}, {"c", "y\n", "200"}, {"a", "", "200"}, {"b", "", "403"}, {"c", "n\n", "403"},
	} {
		u.Expect("(read-only)> ")
		u.Types("./fetch http://" + tt.host + ".test/\r")
		if tt.keys != "" {
			u.Expect("wants to reach " + tt.host + ".test")
			u.Expect(networkQuestion)
			u.Types(tt.keys)
		}
		u.Expect("status " + tt.want)
	}
	u.Expect("(read-only)> ")
	u.Types("exit\r")
	u.End()
}

// TestDeniedHosts: a command fails after its proxy has refused a host. The client reports the
// failure as a denial by the sandbox.
func TestDeniedHosts(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	url, port := outside(t)
	// Without the sandbox there is no proxy, and the command succeeds.
	script := fetch + "test -z \"$CODEX_NETWORK_PROXY_ACTIVE\" || fetch http://a.test/"
	args := []string{"remote", "exec", "--url", url, "--allow-domain", "127.0.0.1:" + port}
	for keys, want := range map[string]int{"y\n": 0, "n\n": 126} {
		u := harness.AtTerminal(t, append(args, "--", "bash", "-c", script)...)
		u.Expect("sandbox: the command was blocked by the server's sandbox (exit code 1)\r\n  environment: remote")
		u.Expect("\r\n  network: refused a.test port 80\r\n")
		u.Expect(question)
		u.Types(keys)
		if rest, code := u.End(); code != want {
			t.Errorf("%q: exit code %d, %q", keys, code, rest)
		}
	}
	for name, tt := range map[string]struct {
		args   []string
		script string
		code   int
		errs   string
	}{
		"nobody to ask": {args, script, 126,
			"codex: the network proxy of the command refused a.test port 80 (no --allow-domain permits it); to let the command reach them use --allow-domain a.test:80"},
		"yes":                       {append(args, "--yes"), script, 0, "retrying without the sandbox (--yes)"},
		"a success":                 {args, script + " || true", 0, ""},
		"a failure of its own":      {args, "exit 4", 4, ""},
		"run, which does not retry": {append([]string{"remote", "run", "--sandbox", "read-only"}, args[2:]...), script, 1, "refused a.test port 80"},
	} {
		_, errs, code := harness.Alone(t, nil, append(append([]string{}, tt.args...), "--", "bash", "-c", tt.script)...)
		if code != tt.code || !strings.Contains(errs, tt.errs) || tt.errs == "" && errs != "" {
			t.Errorf("%s: exit code %d, %q", name, code, errs)
		}
	}
	u := asking(t, url, "fetch http://a.test/")
	u.Expect(networkQuestion)
	u.Types("n\n")
	if rest, code := u.End(); code != 1 || strings.Contains(rest, "retry without sandbox") {
		t.Errorf("refused by the person: exit code %d, %q", code, rest)
	}
	_, errs, code := harness.Alone(t, nil, "remote", "exec", "--url", url, "--ask-network", "--", "true")
	if code != 2 || !strings.Contains(errs, "--ask-network needs a terminal to ask on") {
		t.Errorf("no terminal: exit code %d, %q", code, errs)
	}
}

// TestNetworkAnswersInJSON: --json reports questions and answers.
func TestNetworkAnswersInJSON(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	url, _ := outside(t)
	u := asking(t, url, "fetch http://a.test:81/", "--json")
	u.Expect(networkQuestion)
	u.Types("s\n")
	rest, code := u.End()
	if want := `{"type":"network","attempt":1,"host":"a.test","port":81,"protocol":"http","answer":"session","by":"user"}`; code != 0 || !strings.Contains(rest, want) {
		t.Errorf("exit code %d, %q", code, rest)
	}
}

// TestSavedHosts: --save writes an egress policy with the hosts that a user has permitted. A server
// with this policy permits exactly these hosts.
func TestSavedHosts(t *testing.T) {
	t.Parallel() // the test waits until keys count as an answer
	harness.NeedSandbox(t)
	url, _ := outside(t)
	workspace, beside := harness.Places(t)
	policy := beside + "/policy.toml"
	script := "fetch http://a.test/; fetch http://b.test:81/; fetch http://c.test/; true"
	u := asking(t, url, script, "--save", policy)
	for _, keys := range []string{"y\n", "s\n", "n\n"} {
		u.Expect(networkQuestion)
		u.Types(keys)
	}
	if rest, code := u.End(); code != 0 || strings.Contains(rest, "--save") {
		t.Errorf("exit code %d, %q", code, rest)
	}
	text, err := os.ReadFile(policy)
	if !strings.Contains(string(text), `"a.test:80"`) || !strings.Contains(string(text), `"b.test:81"`) || strings.Contains(string(text), "c.test") {
		t.Errorf(`got error %v, text %s; want text with %q, text with %q, text without "c.test"`, err, text, `"a.test:80"`, `"b.test:81"`)
	}
	if info, err := os.Stat(policy); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got info %v, error %v; want no error, info.Mode().Perm() 0o600", info, err)
	}
	// Now the policy is the ceiling of a server, and restricts every client.
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	t.Cleanup(web.Close)
	_, bounded := harness.ServerWith(t, []string{"HTTP_PROXY=" + web.URL}, "--egress-policy", policy)
	out, errs, code := harness.Alone(t, nil, "remote", "run", "--url", bounded, "--cwd", workspace, "--sandbox", "read-only", "--allow-domain", "*", "--",
		"bash", "-c", fetch+script+"; fetch http://a.test:81/; true")
	if want := "status 200\nstatus 200\nstatus 403\nstatus 403\n"; out != want || code != 0 {
		t.Errorf("exit code %d, %q, %q, want %q", code, out, errs, want)
	}
	// The program detects a file that is not a policy before the command runs.
	harness.Must(t, os.WriteFile(policy, []byte("default = 1"), 0o600))
	u = asking(t, url, "echo ran", "--save", policy)
	if rest, code := u.End(); code != 125 || strings.Contains(rest, "ran\r\n") || !strings.Contains(rest, policy+" is not a valid egress policy") {
		t.Errorf("a file that is none: exit code %d, %q", code, rest)
	}
}
