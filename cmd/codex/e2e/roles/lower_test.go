package roles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/testutil/machine"
)

// TestLowerCeilings: a token with the role read, and one with run whose sandbox is read-only,
// cannot change files by any request or process. The first cannot start processes.
func TestLowerCeilings(t *testing.T) {
	eachWorld(t, func(w *world) {
		reader, looker := w.token("--role", "read", "--cwd", w.ws), w.token("--role", "run", "--max-sandbox", "read-only")
		w.serve()
		ctx := w.t.Context()
		for name, token := range map[string]string{"read": reader, "read-only": looker} {
			f := w.client(token).FS()
			for _, a := range w.changeAttacks() {
				if _, err := a.try(ctx, f, w.ws+"/sub/secret"); err == nil || !strings.Contains(err.Error(), "token") {
					w.t.Errorf(`%s: got a.name %s, error %v; want error with "token"`, name, a.name, err)
				}
			}
			if text, err := f.ReadFile(ctx, w.ws+"/f"); err != nil || string(text) != "text" {
				w.t.Errorf(`%s: got text %q, error %v; want no error, text "text"`, name, text, err)
			}
		}
		if text, err := w.client(reader).FS().ReadFile(ctx, w.beside+"/secret"); err == nil {
			w.t.Errorf("a file outside of the directory was read: %q", text)
		}
		if _, _, err := run(ctx, w.client(reader), w.params("p", managed(), "true")); err == nil || !strings.Contains(err.Error(), "the role run") {
			w.t.Errorf("a start with the role read: %v", err)
		}
		w.onlyLooks(w.client(looker))
		if names, _ := filepath.Glob(w.ws + "/*"); len(names) != 3 {
			w.t.Errorf("the workspace has %v", names)
		}
	})
}

// TestReadersAreConfined: the file requests of a token that may only read run in a sandbox, even if the token has no directory of
// its own. They cannot read the files of the server's process in /proc. If the backend can hide files, they cannot read the
// server's own files either.
func TestReadersAreConfined(t *testing.T) {
	eachWorld(t, func(w *world) {
		reader, admin := w.token("--role", "read"), w.token("--role", "admin")
		server := w.serve()
		ctx := w.t.Context()
		f := w.client(reader).FS()
		if text, err := f.ReadFile(ctx, w.beside+"/secret"); err != nil || string(text) != "secret" {
			w.t.Errorf(`got %q, %v; want "secret"`, text, err)
		}
		if entries, err := f.ReadDir(ctx, w.ws); err != nil || len(entries) != 3 {
			w.t.Errorf("got %v, %v; want 3 names", entries, err)
		}
		for _, name := range []string{"/proc/self/environ", "/proc/self/maps", "/proc/self/mem", fmt.Sprintf("/proc/%d/environ", server.Process.Pid), fmt.Sprintf("/proc/%d/maps", server.Process.Pid)} {
			for role, f := range map[string]*execclient.FS{"read": f, "admin": w.client(admin).FS()} {
				if text, err := f.ReadFile(ctx, name); err == nil {
					w.t.Errorf("%s: %s was read: %d bytes", role, name, len(text))
				}
			}
		}
		own := w.tokens
		if w.relayed {
			own = w.executorToken() // the tokens are a file of the service, about which the server knows nothing
		}
		if text, err := f.ReadFile(ctx, own); err == nil && w.backend != machine.Landlock {
			w.t.Errorf("the server's own file %s was read: %d bytes", own, len(text))
		}
	})
}

// onlyLooks checks the starts of a client whose sandbox must be read-only.
func (w *world) onlyLooks(c *execclient.Client) {
	w.t.Helper()
	script := "echo x > " + w.ws + "/new; echo x >> " + w.ws + "/f; echo x > /tmp/codex-roles-new; echo x > $TMPDIR/new; rm -f " + w.ws + "/f; cat " + w.ws + "/f; echo ran"
	_ = os.Remove("/tmp/codex-roles-new")
	for i, tt := range []struct {
		name    string
		sandbox object
		want    string // expected in the error; "": the process runs
	}{
		{"nothing writable", managed(), ""},
		{"$TMPDIR", managed(special("tmpdir", "write")), ""},
		{"/tmp", managed(special("slash_tmp", "write")), "permits writing"},
		{"the workspace", managed(at(w.ws, "write")), "permits writing"},
		{"a project", with(managed(special("project_roots", "write")), "cwd", uri(w.ws)), "permits writing"},
		{"everything", object{"permissions": object{"type": "disabled"}}, "permits everything"},
		{"no sandbox", nil, "has no sandbox"},
	} {
		p := w.params("look"+string(rune('a'+i)), tt.sandbox, script)
		p.Env["TMPDIR"] = w.dir + "/tmp"
		out, _, err := run(w.t.Context(), c, p)
		if (tt.want == "") != (err == nil && strings.Contains(out, "text") && strings.Contains(out, "ran\n")) || !strings.Contains(errorText(err), tt.want) {
			w.t.Errorf("%s: %q, %v, want %q", tt.name, out, err, tt.want)
		}
	}
	if _, err := os.Lstat("/tmp/codex-roles-new"); !errors.Is(err, os.ErrNotExist) {
		w.t.Errorf("a file in /tmp: %v", err)
	}
	if names, _ := filepath.Glob(w.dir + "/tmp/new"); len(names) > 0 {
		w.t.Errorf("there is %v", names)
	}
}
