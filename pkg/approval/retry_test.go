package approval

import (
	"encoding/json"
	"reflect"
	"testing"

	"codex.internal/pkg/execproto"
)

func TestProcessIDs(t *testing.T) {
	const uuid = "cc9f28b1-4ce7-4136-90f7-5f2b0220d6d3"
	if id := ProcessID("94829", true, uuid); id != "94829-"+uuid {
		t.Errorf("with a sandbox %s", id)
	}
	if id := ProcessID("94829", false, uuid); id != "94829" {
		t.Errorf("without a sandbox %s", id)
	}
}

func TestRetryParams(t *testing.T) {
	arg0 := "sh"
	first := execproto.StartParams{
		ProcessID: "94829-cc9f28b1", Argv: []string{"sh", "-c", "true"}, Cwd: "file:///w",
		Env: map[string]string{"CODEX_SANDBOX_NETWORK_DISABLED": "1"}, TTY: true, Arg0: &arg0, PipeStdin: true,
		EnvPolicy: &execproto.EnvPolicy{Inherit: "all"}, Sandbox: json.RawMessage(`{"permissions":{}}`), EnforceManagedNetwork: true,
		NetworkProxy: &execproto.NetworkProxyLaunch{}, Size: &execproto.TerminalSize{Rows: 3, Cols: 4},
	}
	want := first
	want.ProcessID, want.Sandbox, want.EnforceManagedNetwork, want.NetworkProxy = "94829", nil, false, nil
	second := RetryParams(first, "94829")
	if !reflect.DeepEqual(second, want) {
		t.Errorf("got %+v, want %+v", second, want)
	}
	second.Argv[0], second.Env["A"] = "other", "b"
	if first.Argv[0] != "sh" || len(first.Env) != 1 {
		t.Error("the retry shares the first attempt's memory")
	}
}
