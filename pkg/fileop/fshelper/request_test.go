package fshelper

import (
	"bytes"
	"testing"
)

func TestRequest(t *testing.T) {
	const params = "{\n\"path\":\"~/x\",\"sandbox\":null}"
	for _, tt := range []struct{ home, params, sandbox, head, want string }{
		{"/home/u", params, "", `"home":"file:///home/u",`, params},
		{"/home/a b\xff", params, "null", `"home":"file:///home/a%20b%FF",`, params},
		{"", params, "", ``, params},
		{"", `{"sandbox":{"a":[]},"path":"/"}`, `{"a":[]}`, ``, `{"sandbox":null,"path":"/"}`},
		{"", `{"path":"{\"a\":[]}","sandbox":{"a":[]}}`, `{"a":[]}`, ``, `{"path":"{\"a\":[]}","sandbox":null}`},
		{"", `{"path":"{}","sandbox":{}}`, `{}`, ``, `{"path":"{}","sandbox":{}}`},
	} {
		params := []byte(tt.params)
		pieces := Request("fs/x", tt.home, params, []byte(tt.sandbox))
		want := `{"operation":"fs/x",` + tt.head + `"params":` + tt.want + "}\n"
		if got := string(bytes.Join(pieces, nil)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if &pieces[1][0] != &params[0] {
			t.Error("the params were copied")
		}
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
