package execproto

import (
	"strings"
	"testing"
)

// TestRefusals checks the texts with which params are refused.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		decode func([]byte) error
		text   string
		want   string
	}{
		{errorOf(Decode[StartParams]), ``, "invalid type: null, expected an object"},
		{errorOf(Decode[StartParams]), `{}`, "missing field `processId`"},
		{errorOf(Decode[StartParams]), `{"processId":5}`, "processId: invalid type: number `5`, expected a string"},
		{errorOf(Decode[StartParams]), `{"processId":"p","processId":"q"}`, "duplicate field `processId`"},
		{errorOf(Decode[StartParams]), `{"processId":"p","argv":[],"cwd":"/","env":{},"tty":false}`, "argv must not be empty"},
		{errorOf(Decode[StartParams]), `{"processId":"p","argv":["a"],"cwd":"/","env":{},"tty":false,"pipeStdin":null}`, "pipeStdin: invalid type: null, expected a boolean"},
		{
			errorOf(Decode[StartParams]), `{"processId":"p","argv":["a"],"cwd":"/","env":{},"tty":false,"envPolicy":{"inherit":"some"}}`,
			"envPolicy: inherit: unknown variant `some`, expected one of `all`, `core`, `none`",
		},
		{errorOf(Decode[ReadParams]), `{"processId":"p","afterSeq":-1}`, "afterSeq: invalid value: integer `-1`, expected u64"},
		{errorOf(Decode[ReadParams]), `{"processId":"p","afterSeq":1.5}`, "afterSeq: invalid type: number `1.5`, expected u64"},
		{errorOf(Decode[WriteParams]), `{"processId":"p","chunk":"","writeId":""}`, "writeId must not be empty"},
		{errorOf(Decode[WriteParams]), `{"processId":"p","chunk":"***"}`, "chunk: Invalid symbol 42, offset 0."},
		{errorOf(Decode[ConfigReadParams]), `{"cwd":"/","configPaths":[],"requirementsPaths":[]}`, "at least one config or requirements path is required"},
		{errorOf(Decode[ConfigReadParams]), `{"cwd":"/","configPaths":[["a"]],"requirementsPaths":[[]]}`, "TOML paths must contain at least one key segment"},
		{
			errorOf(Decode[ConfigReadParams]), `{"cwd":"/","configPaths":[["a"` + strings.Repeat(`,"a"`, MaxConfigKeys) + `]],"requirementsPaths":[]}`,
			"configPaths: at most 64 elements are allowed",
		},
		{
			errorOf(Decode[ConfigReadParams]), `{"cwd":"/","configPaths":[["a"]` + strings.Repeat(`,["a"]`, MaxConfigPaths) + `],"requirementsPaths":[]}`,
			"configPaths: at most 1024 elements are allowed",
		},
		{errorOf(Decode[InitializeParams]), `{"clientName":"c","takeOver":1}`, "takeOver: invalid type: number `1`, expected a boolean"},
		{
			errorOf(Decode[StartParams]), `{"processId":"p","argv":["a"],"cwd":"/","env":{},"tty":false,"outputWindow":-1}`,
			"outputWindow: invalid value: integer `-1`, expected u64",
		},
		{errorOf(Decode[ProcessAck]), ``, "invalid type: null, expected an object"},
		{errorOf(Decode[ProcessAck]), `{"processId":"p"}`, "missing field `seq`"},
		{errorOf(Decode[ProcessAck]), `{"processId":"p","seq":null}`, "seq: invalid type: null, expected u64"},
		{errorOf(Decode[HTTPAck]), `{"seq":1}`, "missing field `requestId`"},
		{errorOf(Decode[SignalParams]), `{"processId":"p","signal":"Interrupt"}`, "signal: unknown variant `Interrupt`, expected one of `interrupt`"},
		{errorOf(Decode[CopyParams]), `{"sourcePath":"/","destinationPath":"/","recursive":null}`, "recursive: invalid type: null, expected a boolean"},
		{errorOf(Decode[HTTPRequestParams]), `{"method":"GET","url":"x","requestId":"r","headers":null}`, "headers: invalid type: null, expected a sequence"},
		{errorOf(Decode[RenameParams]), `{"sourcePath":"/","destinationPath":"/","overwrite":0}`, "overwrite: invalid type: number `0`, expected a boolean"},
		{errorOf(Decode[SetAttributesParams]), `{"path":"/","permissions":-1}`, "permissions: invalid value: integer `-1`, expected u32"},
		{errorOf(Decode[SetAttributesParams]), `{"path":"/","permissions":4294967296}`, "permissions: invalid value: integer `4294967296`, expected u32"},
		{
			errorOf(Decode[Attributes]), `{"kind":"pipe","size":0,"permissions":0,"modifiedAtMs":0}`,
			"kind: unknown variant `pipe`, expected one of `file`, `directory`, `symlink`, `other`",
		},
		{errorOf(Decode[SymlinkParams]), `{"path":"/"}`, "missing field `target`"},
		{errorOf(Decode[RenameParams]), `{"sourcePath":"/"}`, "missing field `destinationPath`"},
		{errorOf(DecodeList), `{"scope":"all"}`, "scope must be `session`, `principal` or `server`"},
		{errorOf(DecodeList), `{"usage":1}`, "usage: invalid type: number `1`, expected a boolean"},
		{errorOf(DecodeList), `[]`, "invalid type: sequence, expected an object"},
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
	text, _ := Append(nil, &WriteParams{ProcessID: "p", Chunk: make([]byte, MaxOutputChunk)})
	work := make([]byte, len(text))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		copy(work, text)
		if _, err := Decode[WriteParams](work); err != nil {
			b.Fatal(err)
		}
	}
}
