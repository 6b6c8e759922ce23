package execserver

import (
	"os"
	"path/filepath"
	"testing"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/pathuri"
)

// A failed start says in a word why the program or the sandbox failed. What is refused before has no
// such word, and neither has a file request.
func TestFailedStartsHaveAKind(t *testing.T) {
	dir := t.TempDir()
	for name, file := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"plain": {"x", 0o644}, "garbage": {"\x7fELF", 0o755}, "script": {"#!/nonexistent/interpreter\n", 0o755},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(file.text), file.mode); err != nil {
			t.Fatal(err)
		}
	}
	_, url := newTestServer(t, Options{})
	p, _ := hello(t, url)
	argv := func(words ...string) object { return object{"argv": words} }
	sandbox := func(cwd, root, level string) object {
		return object{"sandbox": object{
			"permissions": object{"type": "managed", "network": "restricted", "file_system": object{"type": "restricted", "entries": []object{}}},
			"cwd":         cwd, "workspaceRoots": []string{root}, "windowsSandboxLevel": level,
		}}
	}
	const elsewhere = "file://host/x"
	for name, tt := range map[string]struct {
		change object
		code   int
		kind   execproto.StartFailure
	}{
		"missing program":          {argv("/nonexistent/x"), execproto.CodeInternal, execproto.SpawnNotFound},
		"missing program in PATH":  {argv("nonexistent-x"), execproto.CodeInternal, execproto.SpawnNotFound},
		"missing interpreter":      {argv(filepath.Join(dir, "script")), execproto.CodeInternal, execproto.SpawnNotFound},
		"missing directory":        {object{"cwd": pathuri.Format(dir + "/none")}, execproto.CodeInternal, execproto.SpawnNotFound},
		"directory that is a file": {object{"cwd": pathuri.Format(dir + "/plain")}, execproto.CodeInternal, execproto.SpawnFailed},
		"not executable":           {argv(filepath.Join(dir, "plain")), execproto.CodeInternal, execproto.SpawnPermissionDenied},
		"program is a directory":   {argv(dir), execproto.CodeInternal, execproto.SpawnPermissionDenied},
		"unknown format":           {argv(filepath.Join(dir, "garbage")), execproto.CodeInternal, execproto.SpawnFailed},
		"NUL byte":                 {argv("/bin/true", "a\x00b"), execproto.CodeInternal, execproto.SpawnFailed},
		"empty name":               {argv(""), execproto.CodeInternal, execproto.SpawnFailed},
		"sandbox cwd elsewhere":    {sandbox(elsewhere, "file:///", "disabled"), execproto.CodeInvalidParams, execproto.SandboxPreparation},
		"workspace root elsewhere": {sandbox("file:///", elsewhere, "disabled"), execproto.CodeInvalidParams, execproto.SandboxPreparation},
		"sandbox of Windows":       {sandbox("file:///", "file:///", "mxc"), execproto.CodeInvalidParams, execproto.SandboxUnavailable},
		"no such sandbox":          {sandbox("file:///", "file:///", "loud"), execproto.CodeInvalidParams, ""},
		"no argv":                  {argv(), execproto.CodeInvalidParams, ""},
		"command's cwd elsewhere":  {object{"cwd": elsewhere}, execproto.CodeInvalidParams, ""},
	} {
		for _, tty := range []bool{false, true} {
			m := p.answer(p.send("process/start", startObject("p", "", tt.change, object{"tty": tty})))
			want := ""
			if tt.kind != "" {
				want = `{"kind":"` + string(tt.kind) + `"}`
			}
			if m.Error == nil {
				t.Errorf("%s, tty %t: got result %s, want an error", name, tty, m.Result)
			} else if m.Error.Code != tt.code || string(m.Error.Data) != want {
				t.Errorf("%s, tty %t: got code %d, data %s; want code %d, data %s", name, tty, m.Error.Code, m.Error.Data, tt.code, want)
			}
		}
	}
	m := p.answer(p.send("fs/readFile", object{"path": "file:///", "sandbox": sandbox(elsewhere, "file:///", "disabled")["sandbox"]}))
	if m.Error == nil || m.Error.Data != nil {
		t.Errorf("fs/readFile: got error %+v, want one without data", m.Error)
	}
}
