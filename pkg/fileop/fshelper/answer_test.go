package fshelper

import (
	"bytes"
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/jsonrpc"
)

func ok(operation, response string) string {
	return string(AppendOK(nil, operation)) + response + OKSuffix + "\n"
}

func TestParseAnswerTakesEveryResult(t *testing.T) {
	for operation, result := range map[string]interface{ AppendJSON([]byte) []byte }{
		"fs/readFile":      execproto.ReadFileResult{DataBase64: []byte("abc")},
		"fs/open":          execproto.OpenResult{HandleID: "h\n"},
		"fs/readBlock":     execproto.ReadBlockResult{Chunk: []byte("abc"), EOF: true},
		"fs/getMetadata":   execproto.Metadata{Size: 1 << 62, ModifiedAtMS: -1},
		"fs/canonicalize":  execproto.PathResult{Path: "file:///a"},
		"fs/readDirectory": execproto.ReadDirectoryResult{Entries: []execproto.DirectoryEntry{{FileName: "a"}, {FileName: "b", IsLossy: true}}},
		"fs/walk": execproto.WalkResult{Entries: []execproto.WalkEntry{{Path: "file:///a", Kind: "file"}},
			Errors: []execproto.WalkError{{Path: "file:///b", Message: "no"}}},
	} {
		want := string(result.AppendJSON(nil))
		for _, line := range []string{ok(operation, want), strings.TrimSuffix(ok(operation, want), "\n")} {
			got, rpcErr, err := ParseAnswer([]byte(line), operation)
			if string(got) != want || rpcErr != nil || err != nil {
				t.Errorf("%s: got %s, rpcErr %v, error %v; want %s, rpcErr nil, no error", line, got, rpcErr, err, want)
			}
		}
	}
	for _, operation := range []string{"fs/writeFile", "fs/createDirectory", "fs/remove", "fs/copy", "fs/writeBlock", "fs/close"} {
		if got, rpcErr, err := ParseAnswer([]byte(ok(operation, "{}")), operation); string(got) != "{}" || rpcErr != nil || err != nil {
			t.Errorf(`%s: got %s, rpcErr %v, error %v; want "{}", rpcErr nil, no error`, operation, got, rpcErr, err)
		}
	}
}

func TestParseAnswerErrors(t *testing.T) {
	long := strings.Repeat("é", maxMessage)
	for answer, want := range map[string]jsonrpc.Error{
		`{"status":"error","payload":{"code":-32004,"message":"a"}}`:       {Code: -32004, Message: "a"},
		`{"status":"error","payload":{"code":-32600,"message":"a\nb"}}`:    {Code: -32600, Message: "a\nb"},
		`{"status":"error","payload":{"message":"a","code":-32603}}`:       {Code: -32603, Message: "a"},
		`{"status":"error","payload":{"code":-32602,"message":"a"}}`:       {Code: -32603, Message: "a"},
		`{"status":"error","payload":{"code":4294934696,"message":"a"}}`:   {Code: -32603, Message: "a"},
		`{"status":"error","payload":{"code":1,"message":"` + long + `"}}`: {Code: -32603, Message: long[:maxMessage] + "…"},
	} {
		_, got, err := ParseAnswer([]byte(answer), "fs/x")
		if err != nil || got == nil || got.Code != want.Code || got.Message != want.Message {
			t.Errorf("%.100s: got %.100v, error %v; want no error, Code %v, Message %v", answer, got, err, want.Code, want.Message)
		}
	}
	e := &jsonrpc.Error{Code: -32600, Message: "a\"b"}
	if _, got, err := ParseAnswer(AppendError(nil, e), "fs/x"); err != nil || got.Code != e.Code || got.Message != e.Message {
		t.Errorf("AppendError came back as %v, %v", got, err)
	}
}

func TestParseAnswerRefuses(t *testing.T) {
	const decode = "failed to encode or decode fs sandbox helper message: "
	for _, tt := range []struct{ answer, err string }{
		{"", decode + "EOF while parsing a value at offset 0"},
		{"bwrap: no", decode + "expected value at offset 0"},
		{ok("fs/open", `{}`), "unexpected fs sandbox helper response: expected fs/getMetadata, got fs/open"},
		{ok("fs/"+strings.Repeat("o", 99), `{}`), "unexpected fs sandbox helper response: expected fs/getMetadata, got fs/" + strings.Repeat("o", 61) + "…"},
		{ok("fs/getMetadata", `{}`), decode + "missing field `isDirectory`"},
		{ok("fs/getMetadata", `[]`), decode},
		{ok("fs/getMetadata", `{"isDirectory":1}`), decode + "unexpected type of field `isDirectory`"},
		{ok("fs/getMetadata", `{"isDirectory":true,"isDirectory":true}`), decode + "unexpected field `isDirectory`"},
		{ok("fs/getMetadata", `{"x":1}`), decode + "unexpected field `x`"},
		{ok("fs/getMetadata", `{}`) + ok("fs/getMetadata", `{}`), decode + "trailing characters"},
		{
			ok("fs/getMetadata", "{\"isDirectory\":true,\n\"isFile\":true,\"isSymlink\":true,\"size\":1,\"createdAtMs\":1,\"modifiedAtMs\":1}"),
			decode + errTwoLines.Error(),
		},
		{
			ok("fs/getMetadata", `{"isDirectory":true,"isFile":true,"isSymlink":true,"size":1.5,"createdAtMs":1,"modifiedAtMs":1}`),
			decode + "invalid type: number `1.5`",
		},
		{`{"payload":{"code":1,"message":""},"status":"error"}`, decode + errNoAnswer.Error()},
		{`{"status":"error"}`, decode + errNoAnswer.Error()},
		{`{"status":"what","payload":{}}`, decode + errNoAnswer.Error()},
		{`{"status":"ok","payload":{}}`, decode + "missing field `operation`"},
		{`{"status":"ok","payload":{"operation":"fs/getMetadata"}}`, decode + "missing field `response`"},
		{`{"status":"ok","payload":{"operation":"fs/getMetadata","response":{},"response":{}}}`, decode + "duplicate field `response`"},
		{`{"status":"error","payload":{"code":1}}`, decode + "missing field `message`"},
		{`{"status":"error","payload":{"code":"1","message":""}}`, decode + "code: invalid type"},
		{`{"status":"error","payload":{"code":1,"message":"","data":1}}`, decode + "unknown field `data`"},
		{`{"status":"ok","status":"error","payload":{}}`, decode + errNoAnswer.Error()},
	} {
		response, rpcErr, err := ParseAnswer([]byte(tt.answer), "fs/getMetadata")
		if response != nil || rpcErr != nil || err == nil || !strings.HasPrefix(err.Error(), tt.err) {
			t.Errorf("%s: %s, %v, %v; want %s", tt.answer, response, rpcErr, err, tt.err)
		}
	}
	for _, response := range []string{"{\"dataBase64\":\"YQ==\"\n}", "{\n\"dataBase64\":\"YQ==\"}", "{\"dataBase64\":\n\"YQ==\"}", "{\"dataBase64\":\"YQ==\n\"}"} {
		if _, _, err := ParseAnswer([]byte(ok("fs/readFile", response)), "fs/readFile"); err == nil {
			t.Errorf("%q was accepted", response)
		}
	}
}

func FuzzParseAnswer(f *testing.F) {
	for operation := range results {
		f.Add([]byte(ok(operation, `{}`)), operation)
	}
	f.Add([]byte(ok("fs/readFile", `{"dataBase64":"YQ=="}`)), "fs/readFile")
	f.Add([]byte(`{"status":"error","payload":{"code":-32004,"message":"a"}}`), "fs/copy")
	f.Fuzz(func(t *testing.T, answer []byte, operation string) {
		response, rpcErr, err := ParseAnswer(answer, operation)
		given := 0
		for _, is := range []bool{response != nil, rpcErr != nil, err != nil} {
			if is {
				given++
			}
		}
		if given != 1 {
			t.Fatalf("got response %s, rpcErr %v, error %v; want given 1", response, rpcErr, err)
		}
		switch {
		case err != nil && len(err.Error()) > 2*len(operation)+1<<10:
			t.Fatalf("an error text of %d bytes", len(err.Error()))
		case rpcErr != nil && rpcErr.Code != -32004 && rpcErr.Code != -32600 && rpcErr.Code != -32603:
			t.Fatalf("code %d", rpcErr.Code)
		case response != nil && (!json.Valid(response) || bytes.ContainsAny(response, "\r\n") || response[0] != '{'):
			t.Fatalf("response %q", response)
		}
	})
}

func TestFailureText(t *testing.T) {
	const begin = "fs sandbox helper failed with status "
	for _, tt := range []struct {
		status syscall.WaitStatus
		stderr string
		want   string
	}{
		{1 << 8, "bwrap: no\n", "exit status: 1: bwrap: no"},
		{0, "", "exit status: 0: "},
		{9, " ", "signal: 9 (SIGKILL): "},
		{11 | 0x80, "\n a\n b\n", "signal: 11 (SIGSEGV) (core dumped): a\n b"},
		{34, "x", "signal: 34: x"},
		{2 << 8, "\xff\xfe", "exit status: 2: \uFFFD"},
		{2 << 8, strings.Repeat("é", maxStderr), "exit status: 2: " + strings.Repeat("é", maxStderr/2) + "…"},
	} {
		if got := FailureText(tt.status, []byte(tt.stderr)); got != begin+tt.want {
			t.Errorf("%.100q, want %.100q", got, begin+tt.want)
		}
	}
}
