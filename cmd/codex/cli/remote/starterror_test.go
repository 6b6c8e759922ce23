package remote

import (
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

// TestAdviceOnCeilings: if a token permits only stricter sandboxes, the advice names the option that asks for such a one.
func TestAdviceOnCeilings(t *testing.T) {
	for message, want := range map[string]string{
		"the process has no sandbox, and the ceiling of this token is --max-sandbox workspace-write; ask for a stricter sandbox": "--sandbox workspace-write",
		"the process has no sandbox, and the ceiling of this token is --max-sandbox read-only; ask for a stricter sandbox":       "--sandbox read-only",
		"another refusal of --max-sandbox": "",
	} {
		err := startError(&execclient.ServerError{Code: execproto.CodeInvalidRequest, Message: message}, []string{"true"})
		if got := cmdutil.AdviceOn(err); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: got advice %q, want it with %q", message, got, want)
		}
		if !strings.Contains(err.Error(), message) {
			t.Errorf("%s: got %q, want the message of the server", message, err)
		}
	}
}
