package sandbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// TestEndOfServerLeavesNoPlaceholders: a server ends while it answers confined file requests,
// including failing ones. None of the launcher's placeholders is left in the workspace.
func TestEndOfServerLeavesNoPlaceholders(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, method, path string
		params             object
		fails              bool
	}{
		{"a write that is denied", "fs/writeFile", "out/x", object{"dataBase64": "eA=="}, true},
		{"a write that is allowed", "fs/writeFile", "ws/x", object{"dataBase64": "eA=="}, false},
		{"a directory that is denied", "fs/createDirectory", "out/x", object{"recursive": true}, true},
		{"a removal of what is not there", "fs/remove", "ws/none", object{"recursive": false, "force": false}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			harness.Must(t, err)
			ws := filepath.Join(dir, "ws")
			harness.Must(t, os.Mkdir(ws, 0o755))
			harness.Must(t, os.Mkdir(filepath.Join(dir, "out"), 0o755))
			params := object{"path": uri(filepath.Join(dir, test.path)), "sandbox": with(
				managed(special("root", "read"), at(ws, "write"), at(ws+"/gone/deep", "deny")),
				"cwd", uri(ws), "workspaceRoots", []string{uri(ws)}, "windowsSandboxLevel", "disabled",
			)}
			for k, v := range test.params {
				params[k] = v
			}
			request, err := json.Marshal(object{"id": 2, "method": test.method, "params": params})
			harness.Must(t, err)
			out, errs, code := harness.Run(t, `{"id":1,"method":"initialize","params":{"clientName":"x"}}
{"method":"initialized"}
`+string(request)+"\n", "exec-server", "--listen", "stdio")
			if code != 0 || strings.Contains(out, `"error"`) != test.fails {
				t.Fatalf("got exit code %d, stdout %s, stderr %s; want exit code 0, strings.Contains(out, `\"error\"`) %v", code, out, errs, test.fails)
			}
			names, err := os.ReadDir(ws)
			harness.Must(t, err)
			for _, n := range names {
				if n.Name() != "x" {
					t.Errorf("%s is left", n.Name())
				}
			}
		})
	}
}
