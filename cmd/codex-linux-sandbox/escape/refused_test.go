//go:build linux

package escape

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSecondStageRefuses: a bwrap that mounts something else than it was told to
// is noticed by the second stage. Nothing runs, and the server is told why on
// the descriptor for that.
func TestSecondStageRefuses(t *testing.T) {
	each(t, []string{"bwrap"}, func(t *testing.T, p *place, backend string) {
		real, err := exec.LookPath("bwrap")
		must(t, err)
		wrong := p.file("bin/bwrap", "#!/bin/sh\nif [ \"$1\" = --args ]; then\n\ta=$2\n\tshift 2\n\tset -- --args \"$a\" --bind "+p.dir+" "+p.dir+" \"$@\"\nfi\nexec "+real+" \"$@\"\n")
		must(t, os.Chmod(wrong, 0o755))
		refusal, err := os.CreateTemp(p.dir, "refusal")
		must(t, err)
		defer refusal.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, launcher, "--backend", backend, "--sandbox-policy-cwd", p.ws, "--command-cwd", p.ws,
			"--permission-profile", p.readOnly(), "--refusal-fd", "3", "--", "sh", "-c", "echo ran")
		cmd.Dir, cmd.SysProcAttr, cmd.ExtraFiles = p.ws, as(p.uid), []*os.File{refusal}
		cmd.Env = []string{"PATH=" + p.dir + "/bin:/usr/bin:/bin"}
		o := p.finish(cmd)
		if o.code != exitFailed || strings.Contains(o.text, "ran") || strings.Count(o.text, "cannot make the sandbox") != 1 {
			t.Errorf("%v", o)
		}
		buf := make([]byte, 1<<10)
		n, _ := unix.Pread(int(refusal.Fd()), buf, 0)
		if text := string(buf[:n]); !strings.Contains(text, "cannot make the sandbox: "+p.dir) {
			t.Errorf("the server is told %q", text)
		}
	})
}
