//go:build linux

package execclient_test

import (
	"errors"
	"io/fs"
	"os/exec"
	"slices"
	"strconv"
	"strings"
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
		refused, ok := errors.AsType[*execclient.ServerError](err)
		kind := execproto.SpawnNotFound
		if slices.Contains(tt.want, fs.ErrPermission) {
			kind = execproto.SpawnPermissionDenied
		}
		if want := `{"kind":"` + string(kind) + `"}`; !ok || string(refused.Data) != want {
			t.Errorf("%s in %s: got error %v, data %+v; want data %s", tt.program, tt.dir, err, refused, want)
		}
	}
}

// TestStartRefusesBytes: what JSON cannot carry is refused by name, and not changed.
func TestStartRefusesBytes(t *testing.T) {
	client, _ := connect(t)
	arg0 := "a\xff"
	for _, tt := range []struct {
		params execproto.StartParams
		want   string // "": no error
	}{
		{execproto.StartParams{Argv: []string{"true", "a\xffb"}}, "argument 1 of the command: \"a\\xffb\" is not UTF-8"},
		{execproto.StartParams{Argv: []string{"true"}, Arg0: &arg0}, "arg0 of the command: \"a\\xff\" is not UTF-8"},
		{execproto.StartParams{Argv: []string{"true"}, Env: map[string]string{"V": "\xfe"}}, "variable: \"V=\\xfe\" is not UTF-8"},
		{execproto.StartParams{Argv: []string{"true", "ü\ufffd"}, Env: map[string]string{"V": "ü"}}, ""},
	} {
		tt.params.ProcessID, tt.params.Cwd = "p", "file:///"
		_, err := client.Start(t.Context(), tt.params)
		if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%q %q: got error %v, want %q", tt.params.Argv, tt.params.Env, err, tt.want)
		}
	}
}
