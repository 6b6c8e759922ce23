package roles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/testutil"
)

// rounds returns the number of tries of each attack while names are exchanged. An attack that is
// not refused succeeds within ten tries.
func rounds() int { return testutil.Rounds(2, 4, 10) }

// TestExchangedLinks: a process exchanges a directory with a link to the outside. Meanwhile, starts
// and file requests of a client with a ceiling neither read nor change a file outside. The
// directory is below the token's directory, or is that directory.
func TestExchangedLinks(t *testing.T) {
	someWorld(t, func(w *world) {
		top := w.dir + "/top"
		for _, dir := range []string{top, top + "/dir", w.ws + "/dir"} {
			harness.Must(w.t, os.Mkdir(dir, 0o755))
			w.own(dir)
		}
		below, itself := w.token("--role", "run", "--cwd", w.ws), w.token("--role", "run", "--cwd", top+"/dir")
		w.serve()
		for _, tt := range []struct{ name, token, dir string }{
			{"a directory below", below, w.ws + "/dir"}, {"the directory itself", itself, top + "/dir"},
		} {
			link := tt.dir + ".link"
			harness.Must(w.t, os.Symlink(w.beside, link))
			stop := exchanging(w.t, tt.dir, link)
			w.control(tt.dir)
			c := w.client(tt.token)
			var wg sync.WaitGroup
			wg.Go(func() { w.startWhileExchanging(c, tt.dir) })
			wg.Go(func() { w.requestWhileExchanging(c.FS(), tt.dir) })
			wg.Wait()
			stop()
			w.removeMountPoints()
			w.untouched(tt.name)
		}
	})
}

// control checks that the exchanged name leads outside without a sandbox.
func (w *world) control(dir string) {
	w.t.Helper()
	testutil.Eventually(w.t.Context(), w.t, "a write by the exchanged link", func() (string, bool) {
		_ = os.WriteFile(dir+"/control", nil, 0o600)
		_, err := os.Lstat(w.beside + "/control")
		return fmt.Sprint(err), err == nil
	})
	harness.Must(w.t, os.Remove(w.beside+"/control"))
}

// removeMountPoints removes the empty directories that bwrap creates before it mounts, because
// bwrap works with paths: see docs/security.md. They must be empty.
func (w *world) removeMountPoints() {
	w.t.Helper()
	if w.backend != "bwrap" {
		return
	}
	for _, name := range []string{".agents", ".codex", ".git"} {
		if err := os.Remove(filepath.Join(w.beside, name)); !errors.Is(err, fs.ErrNotExist) {
			harness.Must(w.t, err)
		}
	}
}

// startWhileExchanging starts processes that write to their working directory, directly and by its name. It
// continues until some launchers have found the directory and not the link. A refusal is a correct result, too.
func (w *world) startWhileExchanging(c *execclient.Client, dir string) {
	script := "echo x > cwd; echo x > " + dir + "/name; chmod 777 secret; rm -f " + dir + "/secret; echo ran"
	ran, refused, launched := 0, 0, 0
	for i := 0; launched < rounds() && i < 200*rounds(); i++ {
		params := w.params(fmt.Sprint("p", i), managed(at(dir, "write")), script)
		params.Cwd = uri(dir)
		out, _, err := run(w.t.Context(), c, params)
		switch {
		case err != nil:
			refused++
			continue
		case strings.Contains(out, "ran"):
			ran++
		}
		launched++
		if launched%5 != 1 {
			continue
		}
		if d, err := c.StartDetached(w.t.Context(), params); err == nil {
			if _, err := d.Wait(w.t.Context()); err != nil {
				w.t.Error(err)
			}
		}
	}
	w.t.Logf("in %s %d processes ran, %d were refused by the server and %d by the launcher", dir, ran, refused, launched-ran)
}

// requestWhileExchanging reads and writes files under the exchanged name.
func (w *world) requestWhileExchanging(f *execclient.FS, dir string) {
	ctx := w.t.Context()
	wrote := 0
	for range 2 * rounds() {
		if err := f.WriteFile(ctx, dir+"/file", []byte("x")); err == nil {
			wrote++
		}
		if text, err := f.ReadFile(ctx, dir+"/secret"); err == nil {
			w.t.Errorf("%q was read by %s", text, dir)
		}
		if f.Remove(ctx, dir+"/secret") == nil {
			w.t.Errorf("a file was removed by %s", dir)
		}
	}
	w.t.Logf("%d of %d files were written in %s", wrote, 2*rounds(), dir)
}
