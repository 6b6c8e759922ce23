package execproto

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"unicode/utf8"
)

// fuzzDecoder passes a decoder JSON, as the envelope does. What it
// accepts must be accepted by encoding/json too, and mean the same: it is
// stricter, never laxer. Decoding must leave nothing out.
func fuzzDecoder[P any](f *testing.F, decode func([]byte) (P, error), seeds ...string) {
	f.Helper()
	for _, s := range append(seeds, `null`, `{}`, `[]`, `{"a":1,"a":2}`) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) || !utf8.Valid(text) {
			return
		}
		got, err := decode(bytes.Clone(text)) // base64 is decoded in place
		if err != nil {
			return
		}
		var want P
		if err := json.Unmarshal(exact(text), &want); err != nil {
			t.Fatalf("accepted %s, which is %v", text, err)
		}
		normalise(reflect.ValueOf(&got))
		normalise(reflect.ValueOf(&want))
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if !bytes.Equal(a, b) {
			t.Fatalf("%s was read as %s, not as %s", text, a, b)
		}
	})
}

// exact drops the members of objects that encoding/json would match although
// their names differ in case.
func exact(text []byte) []byte {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return text
	}
	clean(v, false)
	out, err := json.Marshal(v)
	if err != nil {
		return text
	}
	return out
}

func clean(v any, values bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			clean(e, false)
		}
	case map[string]any:
		for name, e := range v {
			if !values && !members[name] {
				delete(v, name)
				continue
			}
			// Only these hold names that are the client's own.
			clean(e, name == "env" || name == "set" || name == "sandbox")
		}
	}
}

// members are all member names of what is decoded.
var members = map[string]bool{}

func init() {
	for _, p := range []any{
		InitializeParams{}, StartParams{}, EnvPolicy{}, StartMetadata{}, TerminalSize{}, ReadParams{}, WriteParams{}, SignalParams{},
		ProcessParams{}, ResizeParams{}, PathParams{}, LinkPathParams{}, OpenParams{}, ReadBlockParams{}, WriteBlockParams{},
		HandleParams{}, WriteFileParams{}, CreateDirectoryParams{}, RemoveParams{}, CopyParams{}, WalkParams{}, WalkOptions{},
		ProcessAck{}, HTTPAck{}, HTTPRequestParams{}, HTTPHeader{}, OutputNotification{}, ExitedNotification{}, ClosedNotification{}, HTTPBodyDelta{},
		ReadFileResult{}, ReadBlockResult{},
	} {
		for i := range reflect.TypeOf(p).NumField() {
			name, _, _ := bytes.Cut([]byte(reflect.TypeOf(p).Field(i).Tag.Get("json")), []byte(","))
			members[string(name)] = true
		}
	}
}

// normalise makes defaults and the spelling of raw JSON comparable.
func normalise(v reflect.Value) {
	switch p := v.Interface().(type) {
	case *OpenParams:
		if p.Mode == "" {
			p.Mode = OpenRead
		}
	case *HTTPRequestParams:
		if p.RedirectPolicy == "" {
			p.RedirectPolicy = RedirectFollow
		}
		if len(p.Body) == 0 {
			p.Body = nil
		}
		if len(p.Headers) == 0 {
			p.Headers = nil
		}
	case *WriteFileParams:
		p.DataBase64 = Base64Text(string(p.DataBase64))
	}
	if s := v.Elem(); s.Kind() == reflect.Struct {
		if f := s.FieldByName("Sandbox"); f.IsValid() {
			f.SetBytes(nil)
		}
	}
}

func FuzzDecodeInitialize(f *testing.F) {
	fuzzDecoder(f, DecodeInitialize, `{"clientName":"c","resumeSessionId":null}`, `{"clientName":""}`, `{"clientName":"c","resumeSessionId":"s","takeOver":true}`)
}
func FuzzDecodeStart(f *testing.F) {
	fuzzDecoder(f, DecodeStart,
		`{"processId":"p","argv":["a","b"],"cwd":"file:///","env":{"A":"1"},"tty":true,"arg0":null,"pipeStdin":true,`+
			`"envPolicy":{"inherit":"core","ignoreDefaultExcludes":true,"exclude":["x"],"set":{"S":"1"},"includeOnly":[]},`+
			`"sandbox":{"permissions":{}},"enforceManagedNetwork":false,"metadata":{"threadId":"t"},"size":{"rows":1,"cols":65535},`+
			`"outputWindow":65536}`, `{"argv":[]}`)
}
func FuzzDecodeRead(f *testing.F) {
	fuzzDecoder(f, DecodeRead, `{"processId":"p","afterSeq":1,"maxBytes":null,"waitMs":18446744073709551615}`)
}
func FuzzDecodeWrite(f *testing.F) {
	fuzzDecoder(f, DecodeWrite, `{"processId":"p","chunk":"aGk=","writeId":"1"}`, `{"processId":"p","chunk":"***"}`)
}
func FuzzDecodeSignal(f *testing.F) {
	fuzzDecoder(f, DecodeSignal, `{"processId":"p","signal":"interrupt"}`)
}
func FuzzDecodeProcess(f *testing.F) { fuzzDecoder(f, DecodeProcess, `{"processId":"p"}`) }
func FuzzDecodeResize(f *testing.F) {
	fuzzDecoder(f, DecodeResize, `{"processId":"p","rows":24,"cols":80}`)
}
func FuzzDecodePath(f *testing.F) { fuzzDecoder(f, DecodePath, `{"path":"file:///","sandbox":null}`) }
func FuzzDecodeLinkPath(f *testing.F) {
	fuzzDecoder(f, DecodeLinkPath, `{"path":"/","followSymlinks":false}`)
}
func FuzzDecodeOpen(f *testing.F) {
	fuzzDecoder(f, DecodeOpen, `{"handleId":"h","path":"/f","mode":"replace","atomic":true}`)
}
func FuzzDecodeReadBlock(f *testing.F) {
	fuzzDecoder(f, DecodeReadBlock, `{"handleId":"h","offset":0,"len":1048576}`)
}
func FuzzDecodeWriteBlock(f *testing.F) {
	fuzzDecoder(f, DecodeWriteBlock, `{"handleId":"h","offset":3,"chunk":"aGk="}`)
}
func FuzzDecodeHandle(f *testing.F) { fuzzDecoder(f, DecodeHandle, `{"handleId":"h"}`) }
func FuzzDecodeWriteFile(f *testing.F) {
	fuzzDecoder(f, DecodeWriteFile, `{"path":"/f","dataBase64":"aGk=","followSymlinks":null}`)
}
func FuzzDecodeCreateDirectory(f *testing.F) {
	fuzzDecoder(f, DecodeCreateDirectory, `{"path":"/d","recursive":null}`)
}
func FuzzDecodeRemove(f *testing.F) {
	fuzzDecoder(f, DecodeRemove, `{"path":"/d","recursive":false,"force":true}`)
}
func FuzzDecodeCopy(f *testing.F) {
	fuzzDecoder(f, DecodeCopy, `{"sourcePath":"/a","destinationPath":"/b","recursive":true}`)
}
func FuzzDecodeWalk(f *testing.F) {
	fuzzDecoder(f, DecodeWalk,
		`{"path":"/","options":{"maxDepth":1,"maxDirectories":2,"maxEntries":3,"followDirectorySymlinks":true,`+
			`"pruneHiddenDirectories":false}}`)
}
func FuzzDecodeHTTPRequest(f *testing.F) {
	fuzzDecoder(f, DecodeHTTPRequest,
		`{"method":"GET","url":"http://x/","headers":[{"name":"a","value":"b","valueEnvVar":"C"}],"bodyBase64":"aGk=","timeoutMs":5,`+
			`"requestId":"r","streamResponse":true,"redirectPolicy":"stop","deltaWindow":16}`)
}
func FuzzDecodeProcessAck(f *testing.F) {
	fuzzDecoder(f, DecodeProcessAck, `{"processId":"p","seq":9007199254740991}`)
}
func FuzzDecodeHTTPAck(f *testing.F) {
	fuzzDecoder(f, DecodeHTTPAck, `{"requestId":"r","seq":1}`)
}
func FuzzDecodeOutputNotification(f *testing.F) {
	fuzzDecoder(f, DecodeOutputNotification, `{"processId":"p","seq":1,"stream":"pty","chunk":"aGk="}`)
}
func FuzzDecodeExitedNotification(f *testing.F) {
	fuzzDecoder(f, DecodeExitedNotification, `{"processId":"p","seq":2,"exitCode":-1,"sandboxDenied":true}`)
}
func FuzzDecodeClosedNotification(f *testing.F) {
	fuzzDecoder(f, DecodeClosedNotification, `{"processId":"p","seq":3}`)
}
func FuzzDecodeBodyDelta(f *testing.F) {
	fuzzDecoder(f, DecodeBodyDelta, `{"requestId":"r","seq":1,"deltaBase64":"","done":true,"error":"x"}`)
}

func FuzzDecodeEmpty(f *testing.F) {
	for _, s := range []string{`null`, `{}`, `[]`, `{"a":1}`, ` { } `} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if DecodeEmpty(text) != nil {
			return
		}
		var v map[string]any
		if err := json.Unmarshal(text, &v); text != nil && (err != nil || len(v) > 0) {
			t.Fatalf("accepted %q", text)
		}
	})
}
