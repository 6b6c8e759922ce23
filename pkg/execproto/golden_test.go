package execproto

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// TestGolden holds the exact spelling of what the server sends.
func TestGolden(t *testing.T) {
	code, text := -1, "broke"
	for _, tt := range []struct {
		got  interface{ AppendJSON([]byte) []byte }
		want string
	}{
		{InitializeResult{SessionID: "s"}, `{"sessionId":"s"}`},
		{InitializeResult{SessionID: "s", Extensions: []string{"a", "b"}, EnvironmentInfo: &EnvironmentInfo{}},
			`{"sessionId":"s","extensions":["a","b"],"environmentInfo":{"shell":{"name":"","path":""},"temporaryDirectories":[],` +
				`"capabilities":{"fileWriteStreaming":false,"sandboxedFileStreaming":false,"httpHeaderEnvVars":false}}}`},
		{EnvironmentInfo{Shell: Shell{"sh", "/bin/sh"}, Cwd: "file:///", TemporaryDirectories: []string{"file:///t"}, PlatformOS: "linux",
			Capabilities: Capabilities{FileWriteStreaming: true, HTTPHeaderEnvVars: true}},
			`{"shell":{"name":"sh","path":"/bin/sh"},"cwd":"file:///","platformOs":"linux","temporaryDirectories":["file:///t"],` +
				`"capabilities":{"fileWriteStreaming":true,"sandboxedFileStreaming":false,"httpHeaderEnvVars":true}}`},
		{EnvironmentInfo{Shell: Shell{"sh", "/bin/sh"}, TemporaryDirectories: []string{},
			Capabilities: Capabilities{SandboxedFileStreaming: true, RootWriteKeepsDevices: true, RootWriteKeepsRestrictions: true}},
			`{"shell":{"name":"sh","path":"/bin/sh"},"temporaryDirectories":[],"capabilities":{"fileWriteStreaming":false,` +
				`"sandboxedFileStreaming":true,"linuxRootWritePreservesDevices":true,` +
				`"linuxApprovedRootWritePreservesRestrictions":true,"httpHeaderEnvVars":false}}`},
		{StatusResult{"ready"}, `{"status":"ready"}`},
		{StartResult{ProcessID: "p\"", SandboxType: "none"}, `{"processId":"p\"","sandboxType":"none"}`},
		{ReadResult{NextSeq: 1}, `{"chunks":[],"nextSeq":1,"exited":false,"exitCode":null,"closed":false,"failure":null,"sandboxDenied":false}`},
		{ReadResult{Chunks: []OutputChunk{{1, Stdout, []byte("a")}, {2, PTY, nil}}, NextSeq: 5, Exited: true, ExitCode: &code, Closed: true, Failure: &text},
			`{"chunks":[{"seq":1,"stream":"stdout","chunk":"YQ=="},{"seq":2,"stream":"pty","chunk":""}],"nextSeq":5,"exited":true,` +
				`"exitCode":-1,"closed":true,"failure":"broke","sandboxDenied":false}`},
		{WriteResult{WriteStdinClosed}, `{"status":"stdinClosed"}`},
		{TerminateResult{true}, `{"running":true}`},
		{ListResult{}, `{"processes":[]}`},
		{ListResult{[]ProcessInfo{{ProcessID: "p", Argv: []string{"a"}, StartedAtMS: 5, TTY: true}}},
			`{"processes":[{"processId":"p","argv":["a"],"startedAtMs":5,"exited":false,"exitCode":null,"closed":false,"tty":true}]}`},
		{ReadFileResult{[]byte("hello")}, `{"dataBase64":"aGVsbG8="}`},
		{OpenResult{"h"}, `{"handleId":"h"}`},
		{ReadBlockResult{[]byte("x"), true}, `{"chunk":"eA==","eof":true}`},
		{Metadata{IsFile: true, Size: 3, ModifiedAtMS: 4}, `{"isDirectory":false,"isFile":true,"isSymlink":false,"size":3,"createdAtMs":0,"modifiedAtMs":4}`},
		{PathResult{"file:///x"}, `{"path":"file:///x"}`},
		{ReadDirectoryResult{[]DirectoryEntry{{FileName: "a"}, {FileName: "\uFFFD", IsFile: true, IsLossy: true}}},
			`{"entries":[{"fileName":"a","isDirectory":false,"isFile":false},{"fileName":"` + "\uFFFD" + `","isDirectory":false,"isFile":true,"isLossy":true}]}`},
		{WalkResult{Entries: []WalkEntry{{"file:///a", "file"}}, Errors: []WalkError{{"file:///b", "no"}}, Truncated: true},
			`{"entries":[{"path":"file:///a","kind":"file"}],"errors":[{"path":"file:///b","message":"no"}],"truncated":true}`},
		{
			HTTPRequestResult{Status: 200, Headers: []HTTPHeader{{Name: "a", Value: "b"}}, Body: []byte("x")},
			`{"status":200,"headers":[{"name":"a","value":"b"}],"bodyBase64":"eA=="}`,
		},
		{OutputNotification{"p", 1, Stderr, []byte("x")}, `{"method":"process/output","params":{"processId":"p","seq":1,"stream":"stderr","chunk":"eA=="}}`},
		{
			ExitedNotification{ProcessID: "p", Seq: 2, ExitCode: 137},
			`{"method":"process/exited","params":{"processId":"p","seq":2,"exitCode":137,"sandboxDenied":false}}`,
		},
		{
			ExitedNotification{ProcessID: "p", Seq: 1, ExitCode: 125, SandboxRefusal: &SandboxRefusal{[]byte(`{"type":"disabled"}`), "no"}},
			`{"method":"process/exited","params":{"processId":"p","seq":1,"exitCode":125,"sandboxDenied":false,` +
				`"sandboxRefusal":{"policy":{"type":"disabled"},"reason":"no"}}}`,
		},
		{ClosedNotification{"p", 3}, `{"method":"process/closed","params":{"processId":"p","seq":3}}`},
		{
			HTTPBodyDelta{RequestID: "r", Seq: 1, Delta: []byte("x")},
			`{"method":"http/request/bodyDelta","params":{"requestId":"r","seq":1,"deltaBase64":"eA==","done":false,"error":null}}`,
		},
		{
			HTTPBodyDelta{RequestID: "r", Seq: 2, Done: true, Error: &text},
			`{"method":"http/request/bodyDelta","params":{"requestId":"r","seq":2,"deltaBase64":"","done":true,"error":"broke"}}`,
		},
	} {
		got := string(tt.got.AppendJSON([]byte("before")))
		if got != "before"+tt.want {
			t.Errorf("%T:\n got %s\nwant %s", tt.got, got, tt.want)
		}
		if !json.Valid([]byte(tt.want)) {
			t.Errorf("%T: the golden text is no JSON", tt.got)
		}
	}
}

// TestGoldenParams holds the exact spelling of the members that extensions
// add to what a client sends, and that they are left out when not used.
func TestGoldenParams(t *testing.T) {
	session := "s"
	for _, tt := range []struct {
		params any
		decode func([]byte) (any, error)
		text   string
	}{
		{InitializeParams{ClientName: "c", ResumeSessionID: &session}, anyOf(DecodeInitialize),
			`{"clientName":"c","resumeSessionId":"s"}`},
		{InitializeParams{ClientName: "c", ResumeSessionID: &session, TakeOver: true}, anyOf(DecodeInitialize),
			`{"clientName":"c","resumeSessionId":"s","takeOver":true}`},
		{StartParams{ProcessID: "p", Argv: []string{"a"}, Cwd: "/", Env: map[string]string{}}, anyOf(DecodeStart),
			`{"processId":"p","argv":["a"],"cwd":"/","env":{},"tty":false,"arg0":null,"pipeStdin":false,"envPolicy":null,"sandbox":null,"enforceManagedNetwork":false}`},
		{StartParams{ProcessID: "p", Argv: []string{"a"}, Cwd: "/", Env: map[string]string{}, OutputWindow: 65536}, anyOf(DecodeStart),
			`{"processId":"p","argv":["a"],"cwd":"/","env":{},"tty":false,"arg0":null,"pipeStdin":false,"envPolicy":null,` +
				`"sandbox":null,"enforceManagedNetwork":false,"outputWindow":65536}`},
		{ProcessAck{ProcessID: "p", Seq: 1<<53 - 1}, anyOf(DecodeProcessAck), `{"processId":"p","seq":9007199254740991}`},
		{HTTPRequestParams{Method: "GET", URL: "http://x/",
			RequestID: "r", StreamResponse: true, RedirectPolicy: RedirectFollow, DeltaWindow: 16}, anyOf(DecodeHTTPRequest),
			`{"method":"GET","url":"http://x/","bodyBase64":null,"timeoutMs":null,"requestId":"r","streamResponse":true,"redirectPolicy":"follow","deltaWindow":16}`},
		{HTTPAck{RequestID: "r", Seq: 2}, anyOf(DecodeHTTPAck), `{"requestId":"r","seq":2}`},
	} {
		text, err := json.Marshal(tt.params)
		if err != nil || string(text) != tt.text {
			t.Errorf("%T:\n got %s (%v)\nwant %s", tt.params, text, err, tt.text)
		}
		if got, err := tt.decode([]byte(tt.text)); err != nil || !reflect.DeepEqual(got, tt.params) {
			t.Errorf("%s was read as %+v (%v)", tt.text, got, err)
		}
	}
}

func anyOf[P any](decode func([]byte) (P, error)) func([]byte) (any, error) {
	return func(text []byte) (any, error) { return decode(text) }
}

// TestRefusals holds the words in which params are refused.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		decode func([]byte) error
		text   string
		want   string
	}{
		{errorOf(DecodeStart), ``, "invalid type: null, expected an object"},
		{errorOf(DecodeStart), `{}`, "missing field `processId`"},
		{errorOf(DecodeStart), `{"processId":5}`, "processId: invalid type: number `5`, expected a string"},
		{errorOf(DecodeStart), `{"processId":"p","processId":"q"}`, "duplicate field `processId`"},
		{errorOf(DecodeStart), `{"processId":"p","argv":[],"cwd":"/","env":{},"tty":false}`, "argv must not be empty"},
		{errorOf(DecodeStart), `{"processId":"p","argv":["a"],"cwd":"/","env":{},"tty":false,"pipeStdin":null}`, "pipeStdin: invalid type: null, expected a boolean"},
		{
			errorOf(DecodeStart), `{"processId":"p","argv":["a"],"cwd":"/","env":{},"tty":false,"envPolicy":{"inherit":"some"}}`,
			"envPolicy: inherit: unknown variant `some`, expected one of `all`, `core`, `none`",
		},
		{errorOf(DecodeRead), `{"processId":"p","afterSeq":-1}`, "afterSeq: invalid value: integer `-1`, expected u64"},
		{errorOf(DecodeRead), `{"processId":"p","afterSeq":1.5}`, "afterSeq: invalid type: number `1.5`, expected u64"},
		{errorOf(DecodeWrite), `{"processId":"p","chunk":"","writeId":""}`, "writeId must not be empty"},
		{errorOf(DecodeWrite), `{"processId":"p","chunk":"***"}`, "chunk: Invalid symbol 42, offset 0."},
		{errorOf(DecodeInitialize), `{"clientName":"c","takeOver":1}`, "takeOver: invalid type: number `1`, expected a boolean"},
		{
			errorOf(DecodeStart), `{"processId":"p","argv":["a"],"cwd":"/","env":{},"tty":false,"outputWindow":-1}`,
			"outputWindow: invalid value: integer `-1`, expected u64",
		},
		{errorOf(DecodeProcessAck), ``, "invalid type: null, expected an object"},
		{errorOf(DecodeProcessAck), `{"processId":"p"}`, "missing field `seq`"},
		{errorOf(DecodeProcessAck), `{"processId":"p","seq":null}`, "seq: invalid type: null, expected u64"},
		{errorOf(DecodeHTTPAck), `{"seq":1}`, "missing field `requestId`"},
		{errorOf(DecodeSignal), `{"processId":"p","signal":"Interrupt"}`, "signal: unknown variant `Interrupt`, expected one of `interrupt`"},
		{errorOf(DecodeCopy), `{"sourcePath":"/","destinationPath":"/","recursive":null}`, "recursive: invalid type: null, expected a boolean"},
		{errorOf(DecodeHTTPRequest), `{"method":"GET","url":"x","requestId":"r","headers":null}`, "headers: invalid type: null, expected a sequence"},
		{DecodeEmpty, `[]`, "invalid type: sequence, expected unit"},
		{DecodeEmpty, `{"a":1}`, "unexpected field `a`"},
	} {
		var text []byte
		if tt.text != "" {
			text = []byte(tt.text)
		}
		if err := tt.decode(text); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.text, err, tt.want)
		}
	}
}

func errorOf[P any](decode func([]byte) (P, error)) func([]byte) error {
	return func(text []byte) error {
		_, err := decode(text)
		return err
	}
}

func BenchmarkAppendOutput(b *testing.B) {
	chunk := make([]byte, MaxOutputChunk)
	buf := make([]byte, 0, 2*MaxOutputChunk)
	b.SetBytes(MaxOutputChunk)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendOutput(buf[:0], "process", 12345, Stdout, chunk)
	}
}

func BenchmarkDecodeWrite(b *testing.B) {
	text, _ := json.Marshal(WriteParams{ProcessID: "p", Chunk: make([]byte, MaxOutputChunk)})
	work := make([]byte, len(text))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		copy(work, text)
		if _, err := DecodeWrite(work); err != nil {
			b.Fatal(err)
		}
	}
}
