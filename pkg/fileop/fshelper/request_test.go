//go:build linux || darwin

package fshelper

import (
	"bytes"
	"testing"
)

func TestRequest(t *testing.T) {
	for _, tt := range []struct{ home, want string }{
		{"/home/u", `"home":"file:///home/u",`},
		{"/home/a b\xff", `"home":"file:///home/a%20b%FF",`},
		{"", ``},
	} {
		params := []byte("{\n\"path\":\"~/x\",\"sandbox\":{}}")
		pieces := Request("fs/x", tt.home, params)
		want := `{"operation":"fs/x",` + tt.want + `"params":` + string(params) + "}\n"
		if got := string(bytes.Join(pieces[:], nil)); got != want {
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
