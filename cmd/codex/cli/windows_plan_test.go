package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/sandbox/winsandbox"
)

// TestExplainWindows checks the output of --target windows: the wrapper can parse its arguments,
// and the output shows no value of a variable.
func TestExplainWindows(t *testing.T) {
	t.Setenv("CODEX_HOME", t.TempDir())
	t.Setenv("HTTPS_PROXY", "http://user:hidden@127.0.0.1:8080")
	for _, tt := range []struct {
		options  []string
		profile  string
		expected string
	}{
		{nil, `"access":"read"`, "user:      the offline sandbox user\nfirewall:  no connections but to loopback ports 8080\n" +
			"step 1:    elevated set-up: sandbox setup marker missing or incompatible\nstep 2:    refresh of access rights\nwrapper:\n"},
		{[]string{"--workspace-write"}, `"kind":"project_roots"`, "user:      the offline"},
		{[]string{"--network", "--workspace-write", "--writable-root", "/more"}, `"path":"/more"`, "user:      the online sandbox user\nfirewall:  no rules of its own\n"},
	} {
		var out, errs bytes.Buffer
		args := append(append([]string{"codex", "sandbox", "--explain", "--target", "windows"}, tt.options...), "--", "dir", "/b")
		if code := Main(args, strings.NewReader(""), &out, &errs); code != 0 || !strings.HasPrefix(out.String(), tt.expected) {
			t.Errorf("%q: exit code %d, got\n%s%s, want\n%s", tt.options, code, out.String(), errs.String(), tt.expected)
			continue
		}
		_, list, _ := strings.Cut(out.String(), "wrapper:\n")
		var words []string
		for line := range strings.Lines(list) {
			words = append(words, strings.TrimSuffix(strings.TrimPrefix(line, "   "), "\n"))
		}
		request, err := winsandbox.ParseArgs(words)
		if err != nil || !slices.Equal(request.Command, []string{"dir", "/b"}) || !strings.Contains(string(request.PermissionProfile), tt.profile) {
			t.Errorf("%q: the wrapper reads %+v, %v", tt.options, request, err)
		}
		if strings.Contains(out.String(), "hidden") {
			t.Errorf("%q: a value of a variable is shown:\n%s", tt.options, out.String())
		}
	}
	for _, wrong := range [][]string{
		{"--target", "windows", "--", "dir"}, {"--explain", "--target", "mac"}, {"--explain", "--target", "windows", "--backend", "bwrap"},
	} {
		var out, errs bytes.Buffer
		if code := Main(append([]string{"codex", "sandbox"}, wrong...), strings.NewReader(""), &out, &errs); code != cmdutil.ExitUsage || out.Len() != 0 {
			t.Errorf("%q: exit code %d, %q, want %d", wrong, code, out.String(), cmdutil.ExitUsage)
		}
	}
}
