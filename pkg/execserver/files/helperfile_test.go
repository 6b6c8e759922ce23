package files

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/pkg/execserver/share"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox/runner"
	"codex.internal/pkg/wire/b64"
)

// TestFilesOfAHelper reads files from the answers of helpers. A file is never held beyond the
// client's share, and an answer that breaks off, or that is not one of fs/readFile, is an error.
func TestFilesOfAHelper(t *testing.T) {
	supervisor, err := process.NewSupervisor(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer supervisor.Close()
	srv := NewServer(Options{
		Sandboxes:  func() (*runner.Runtime, error) { return nil, runner.ErrUnenforceable },
		ReadsLarge: func(int64) {},
	})
	defer srv.Wait()
	large := bytes.Repeat([]byte("0123456"), 1<<20)
	head, text := string(fileHead), string(b64.Append(nil, large))
	for _, tt := range []struct {
		name, answer string
		memory       int64
		want         []byte
		err          string // of the request, or of reading its result
	}{
		{"empty", head + fileTail, 64 << 20, nil, ""},
		{"small", head + "YWI=" + fileTail, 64 << 20, []byte("ab"), ""},
		{"large", head + text + fileTail, 64 << 20, large, ""},
		{"large with a small share", head + text + fileTail, 2 << 20, large, ""},
		{"an error", `{"status":"error","payload":{"code":-32004,"message":"no file"}}` + "\n", 64 << 20, nil, "no file"},
		{"broken off", head + text, 64 << 20, nil, "unexpected EOF"},
		{"broken off with a small share", head + text, 2 << 20, nil, "unexpected EOF"},
		{"no base64 text", head + "a b=" + fileTail, 64 << 20, nil, "illegal base64 data"},
		{"a part of four symbols", head + "YWI" + fileTail, 64 << 20, nil, "unexpected EOF"},
		{"another end", head + `","x":"` + fileTail, 64 << 20, nil, "not the end"},
		{"another result", strings.TrimSuffix(head, `{"dataBase64":"`) + "{}}}\n", 64 << 20, nil, "missing field"},
		{"in another form", " " + head + fileTail, 64 << 20, nil, "it has no file"},
		{"nothing", "", 64 << 20, nil, "helper"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "answer")
			if err := os.WriteFile(path, []byte(tt.answer), 0o600); err != nil {
				t.Fatal(err)
			}
			child, err := supervisor.StartChild(process.Spec{Argv: []string{"/bin/sh", "-c", "read -r request; exec cat " + path}, Dir: "/"})
			if err != nil {
				t.Fatal(err)
			}
			shares, ctx := sharing(t, tt.memory)
			h := &helper{srv: srv, child: child, unhook: func() bool { return true }, memory: &memory{account: share.From(ctx)}}
			got, err := readOf(t, h, shares, tt.memory)
			srv.Wait()
			_ = h.end()
			if !bytes.Equal(got, tt.want) && tt.err == "" {
				t.Errorf("got %d bytes, want %d", len(got), len(tt.want))
			}
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("got error %v, want %q", err, tt.err)
			}
			if used := usedMemory(shares); used != 0 {
				t.Errorf("in the end got %d held, want none", used)
			}
		})
	}
}

// readOf returns the file that a helper answers. No more may be held than the share has.
func readOf(t *testing.T, h *helper, shares *share.Shares, limit int64) ([]byte, error) {
	t.Helper()
	f, err := h.readFile([]byte(`{"operation":"fs/readFile","params":{}}` + "\n"))
	if err != nil {
		h.memory.free()
		return nil, err
	}
	r, err := h.srv.contentResult(content{f, 0, h.memory})
	if err != nil {
		return nil, err
	}
	if used := usedMemory(shares); used > limit {
		t.Errorf("got %d held, want at most %d", used, limit)
	}
	return contents(r)
}
