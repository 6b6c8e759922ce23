//go:build linux || darwin

package fshelper

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAppendRequest(t *testing.T) {
	for _, tt := range []struct{ name, params, want, err string }{
		{"the sandbox is left out", `{"path":"file:///a","sandbox":{"permissions":["x"]},"followSymlinks":false}`,
			`{"path":"file:///a","followSymlinks":false}`, ""},
		{"the sandbox comes first", `{"sandbox":null, "path":"file:///a"}`, `{"path":"file:///a"}`, ""},
		{"nothing but a sandbox", `{"sandbox":null}`, `{}`, ""},
		{"a home", `{"path":"~/x y"}`, `{"path":"file:///home/u/x%20y"}`, ""},
		{"the home itself", `{"sourcePath":"~","destinationPath":"/~"}`, `{"sourcePath":"file:///home/u","destinationPath":"/~"}`, ""},
		{"an escaped home", `{"path":"\u007e/x"}`, `{"path":"file:///home/u/x"}`, ""},
		{"many lines become one", "{\n\"path\"\n:\n\"/a\",\n\"options\": {\r\n\"a\": [1,\n2]\n}\n}\n", `{"path":"/a","options":{  "a": [1, 2] }}`, ""},
		{"data as it is", `{"path":"/a","dataBase64":"YQ=="}`, `{"path":"/a","dataBase64":"YQ=="}`, ""},
		{"no object", `[]`, "", "params of fs/x: invalid type: sequence, expected an object"},
		{"none", ``, "", "params of fs/x: EOF while parsing a value at offset 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := AppendRequest([]byte("before "), "fs/x", []byte(tt.params), "/home/u")
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Fatalf("%v, want %s", err, tt.err)
				}
				return
			}
			if want := `before {"operation":"fs/x","params":` + tt.want + "}\n"; err != nil || string(got) != want {
				t.Errorf("%s, %v; want %s", got, err, want)
			}
		})
	}
}

func TestHandleLines(t *testing.T) {
	for got, want := range map[string]string{
		string(AppendReadBlock(nil, 1<<63, 7)):          `{"operation":"fs/readBlock","params":{"offset":9223372036854775808,"len":7}}`,
		string(AppendWriteBlock(nil, 5, []byte("abc"))): `{"operation":"fs/writeBlock","params":{"offset":5,"chunk":"YWJj"}}`,
		string(AppendClose(nil)):                        `{"operation":"fs/close","params":{}}`,
	} {
		if got != want+"\n" {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// FuzzAppendRequest checks that what comes out is one line of JSON without a
// sandbox, and otherwise means the same.
func FuzzAppendRequest(f *testing.F) {
	for _, s := range []string{`{"path":"~/a","sandbox":{}}`, `{"a":[1,
		2],"sandbox":1,"b":"\n"}`, `{}`, `[]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, params []byte) {
		var want map[string]json.RawMessage
		if json.Unmarshal(params, &want) != nil || want == nil {
			return
		}
		line, err := AppendRequest(nil, "fs/x", params, "/h")
		if err != nil {
			return
		}
		if i := strings.IndexByte(string(line), '\n'); i != len(line)-1 {
			t.Fatalf("%q has a newline at %d", line, i)
		}
		var got struct {
			Operation string
			Params    map[string]json.RawMessage
		}
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if _, ok := got.Params["sandbox"]; ok || got.Operation != "fs/x" {
			t.Fatalf("%s", line)
		}
		delete(want, "sandbox")
		if len(got.Params) != len(want) {
			t.Fatalf("%s has other members than %s", line, params)
		}
	})
}
