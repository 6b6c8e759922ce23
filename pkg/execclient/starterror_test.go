//go:build linux

package execclient_test

import (
	"errors"
	"io/fs"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

// TestStartErrors: the error of a failed start matches the errors of os/exec and io/fs.
func TestStartErrors(t *testing.T) {
	client, _ := connect(t)
	all := []error{exec.ErrNotFound, fs.ErrNotExist, fs.ErrPermission}
	for i, tt := range []struct {
		program, dir string
		want         []error
	}{
		{"/no/such/program", "file:///", all[:2]},
		{"no-such-program", "file:///", all[:2]},
		{"true", "file:///no/such/directory", all[1:2]},
		{"/etc/passwd", "file:///", all[2:]},
	} {
		_, err := client.Start(t.Context(), execproto.StartParams{ProcessID: strconv.Itoa(i), Argv: []string{tt.program}, Cwd: tt.dir})
		for _, target := range all {
			if want := slices.Contains(tt.want, target); errors.Is(err, target) != want {
				t.Errorf("%s in %s: %v matches %v: %t", tt.program, tt.dir, err, target, !want)
			}
		}
		if _, ok := errors.AsType[*execclient.ServerError](err); !ok {
			t.Errorf("%s in %s: %v", tt.program, tt.dir, err)
		}
	}
}
