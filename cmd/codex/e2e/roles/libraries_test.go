package roles

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/testutil"
)

// errStatic means that the programs of this machine need no libraries.
var errStatic = errors.New("/bin/cat is linked statically")

// TestDynamicHelper: the helper of file requests is linked dynamically, and the client's token has
// --cwd. A request fails with an error that names a remedy.
func TestDynamicHelper(t *testing.T) {
	eachWorld(t, func(w *world) {
		f, err := elf.Open("/bin/cat")
		harness.Must(w.t, err)
		if !slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
			testutil.Need(w.t, "dynamically linked program", errStatic, errStatic)
		}
		text, err := os.ReadFile("/bin/cat")
		harness.Must(w.t, err)
		harness.Must(w.t, testutil.WriteProgram(filepath.Join(filepath.Dir(w.bin), "codex-fs"), text))
		token := w.token("--role", "run", "--cwd", w.ws)
		w.serve()
		_, err = w.client(token).FS().ReadFile(w.t.Context(), w.ws+"/f")
		if err == nil || !strings.Contains(err.Error(), "is linked dynamically") || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
			w.t.Errorf("the error is %v", err)
		}
		// If the sandbox shows the libraries, the helper starts. It has the descriptors that it needs to load
		// them. Here the helper is cat, so it answers with the request itself.
		_, err = w.client(w.token("--role", "run")).FS().WithSandbox(execclient.ReadOnlySandbox()).ReadFile(w.t.Context(), w.ws+"/f")
		if err == nil || !strings.Contains(err.Error(), "failed to encode or decode") {
			w.t.Errorf("without --cwd, the error is %v", err)
		}
	})
}
