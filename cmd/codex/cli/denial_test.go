package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/wire/jsonrpc"
	"codex.internal/pkg/wire/websocket"
)

// oldServer answers like a server that does not support sandboxes, or that reports only later
// whether it does.
func oldServer(t *testing.T, started, exited, read string) (url string, methods func() []string) {
	t.Helper()
	var seen []string
	ended := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		c, err := websocket.Upgrade(w, r, websocket.Options{}, nil)
		if err != nil {
			t.Error(err)
			return
		}
		for {
			m, err := c.ReadMessage()
			if err != nil {
				return
			}
			request, err := jsonrpc.Decode(bytes.Clone(m.Bytes()))
			m.Release()
			if err != nil {
				t.Error(err)
				return
			}
			seen = append(seen, request.Method)
			var answers []string
			switch request.Method {
			case "initialize":
				answers = []string{`{"sessionId":"s"}`}
			case "environment/info":
				answers = []string{`{"shell":{"name":"sh","path":"/bin/sh"},"cwd":"file:///src"}`}
			case "process/start":
				answers = []string{started, exited, `{"method":"process/closed","params":{"processId":"PROCESS","seq":2}}`}
			case "process/read":
				answers = []string{read}
			case "process/terminate":
				answers = []string{`{"running":true}`}
			}
			for i, answer := range answers {
				if answer == "" {
					continue
				}
				if i == 0 {
					answer = fmt.Sprintf(`{"id":%s,"result":%s}`, request.ID, answer)
				}
				answer = strings.ReplaceAll(answer, "PROCESS", processOf(request.Params))
				frame := c.Seal(append(c.Open(nil), answer...), 0)
				if err := c.WriteFrames(frame); err != nil {
					t.Error(err)
				}
			}
		}
	}))
	t.Cleanup(srv.Close)
	return "ws" + strings.TrimPrefix(srv.URL, "http"), func() []string { <-ended; return seen }
}

func processOf(params json.RawMessage) string {
	var p struct{ ProcessID string }
	_ = json.Unmarshal(params, &p)
	return p.ProcessID
}

func TestServersThatDoNotConfine(t *testing.T) {
	const (
		exited = `{"method":"process/exited","params":{"processId":"PROCESS","seq":1,"exitCode":5,"sandboxDenied":%v}}`
		read   = `{"chunks":[],"nextSeq":3,"exited":true,"exitCode":5,"closed":true,"failure":null,"sandboxDenied":%v}`
		hint   = "probably denied"
	)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for name, tt := range map[string]struct {
		policy, sandboxType string
		exited, read        bool
		code                int
		want                string
		killed              bool
	}{
		"it says that it did not":         {"read-only", `,"sandboxType":"none"`, false, false, 127, "did not confine the command", true},
		"no sandbox was asked for":        {`{"type":"disabled"}`, `,"sandboxType":"none"`, false, false, 5, "", false},
		"it does not say":                 {"read-only", "", false, false, 5, "", false},
		"it tells of a denial at the end": {"read-only", `,"sandboxType":"linuxSeccomp"`, true, false, 5, hint, false},
		"or to who reads":                 {"read-only", "", false, true, 5, hint, false},
		"or without having been asked":    {"", "", true, true, 5, "", false},
	} {
		url, methods := oldServer(t, `{"processId":"PROCESS"`+tt.sandboxType+`}`, fmt.Sprintf(exited, tt.exited), fmt.Sprintf(read, tt.read))
		args := []string{"codex", "remote", "run", "--url", url}
		if tt.policy != "" {
			args = append(args, "--sandbox", tt.policy)
		}
		var out, errs bytes.Buffer
		code := Main(append(args, "--", "true"), null, &out, &errs)
		if code != tt.code || !strings.Contains(errs.String(), tt.want) || tt.want == "" && errs.Len() > 0 {
			t.Errorf("%s: exit code %d, %q", name, code, errs.String())
		}
		if seen := methods(); slices.Contains(seen, "process/terminate") != tt.killed {
			t.Errorf("%s: calls %q", name, seen)
		}
	}
}

func TestOlderServersTellOfDenialsToWhoReads(t *testing.T) {
	const (
		exited = `{"method":"process/exited","params":{"processId":"PROCESS","seq":1,"exitCode":5}}`
		read   = `{"chunks":[],"nextSeq":3,"exited":true,"exitCode":5,"closed":true,"failure":null,"sandboxDenied":%v}`
	)
	for denied, code := range map[bool]int{true: cmdutil.ExitDenied, false: 5} {
		url, _ := oldServer(t, `{"processId":"PROCESS"}`, exited, fmt.Sprintf(read, denied))
		var out, errs bytes.Buffer
		if got := Main([]string{"codex", "remote", "exec", "--url", url, "--no-input", "--", "true"}, strings.NewReader(""), &out, &errs); got != code {
			t.Errorf("denied %v: exit code %d, %q", denied, got, errs.String())
		}
	}
}
