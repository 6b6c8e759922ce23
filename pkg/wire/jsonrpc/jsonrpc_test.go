package jsonrpc

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestDecode(t *testing.T) {
	for _, tt := range []struct {
		text string
		kind Kind
		id   string
	}{
		{`{"id":1,"method":"m"}`, Request, "1"},
		{`{"id":-9223372036854775808,"method":"m","params":{"a":1}}`, Request, "-9223372036854775808"},
		{`{"id":"","method":"m","params":null}`, Request, `""`},
		{`{"method":"m","id":"a\u0041"}`, Request, `"a\u0041"`},
		{`{"id":1,"method":"m","result":{}}`, Request, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"m","trace":{"traceparent":"x","tracestate":null}}`, Request, "1"},
		{`{"id":1,"method":"m","trace":5}`, Request, "1"},
		{`{"id":1,"method":"m","trace":{"traceparent":5}}`, Request, "1"},
		{`{"method":"m"}`, Notification, ""},
		{`{"id":1,"result":null}`, Response, "1"},
		{`{"id":1,"error":{"code":-1,"message":"x","data":[1]}}`, ErrorResponse, "1"},
	} {
		m, err := Decode([]byte(tt.text))
		if err != nil || m.Kind != tt.kind || m.ID.String() != tt.id {
			t.Errorf("%s: kind %d, id %s, %v", tt.text, m.Kind, m.ID, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, text := range []string{
		``, `   `, `{`, `5`, `"x"`, `null`, `[]`, `[1,2]`, `{}`, `{"id":1}`, `{"result":1}`, `{"error":{"code":1,"message":""}}`,
		`{"id":null,"method":"m"}`, `{"id":1.5,"method":"m"}`, `{"id":true,"method":"initialized"}`, `{"id":{},"method":"m"}`,
		`{"id":1e20,"method":"m"}`, `{"id":9223372036854775808,"method":"m"}`, `{"id":1,"method":5}`, `{"id":1,"id":1,"method":"m"}`,
		`{"id":1,"method":"m","method":"m"}`, `{"id":1,"method":"m"} x`, "\ufeff" + `{"id":1,"method":"m"}`,
		`{"id":1,"error":{"code":1}}`, `{"id":1,"error":"x"}`,
	} {
		if m, err := Decode([]byte(text)); err == nil {
			t.Errorf("%s was accepted as %+v", text, m)
		}
	}
}

func TestAppend(t *testing.T) {
	for _, tt := range []struct {
		got  []byte
		want string
	}{
		{AppendRequest(nil, IntID(1), "a/b", []byte(`{"x":1}`)), `{"id":1,"method":"a/b","params":{"x":1}}`},
		{AppendRequest(nil, ID{`"q\""`}, "m", nil), `{"id":"q\"","method":"m","params":null}`},
		{AppendNotification(nil, "m", nil), `{"method":"m"}`},
		{AppendNotification(nil, "m", []byte(`{}`)), `{"method":"m","params":{}}`},
		{append(AppendResultHeader(nil, IntID(7)), `{}}`...), `{"id":7,"result":{}}`},
		{AppendError(nil, IntID(-1), &Error{Code: -32600, Message: "no"}), `{"error":{"code":-32600,"message":"no"},"id":-1}`},
		{AppendError(nil, IntID(2), &Error{Code: 1, Message: "no", Data: []byte(`[1]`)}), `{"error":{"code":1,"message":"no","data":[1]},"id":2}`},
	} {
		if string(tt.got) != tt.want {
			t.Errorf("got %s, want %s", tt.got, tt.want)
		}
	}
}

// FuzzDecode checks that an accepted message is JSON, and is unchanged when
// written and read again.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"id":1,"method":"m","params":{"a":[1]}}`, `{"method":"initialized"}`, `{"id":"x","result":{}}`,
		`{"id":1,"error":{"code":-1,"message":"m"}}`, `{"id":null,"method":"m"}`, `[1,2]`, `{"id":1e3,"method":"m"}`,
		`{"id":1,"method":"m","trace":{"traceparent":null}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Decode(text)
		if err != nil {
			return
		}
		if !json.Valid(text) {
			t.Fatalf("accepted %q", text)
		}
		var again []byte
		switch m.Kind {
		case Request:
			again = AppendRequest(nil, m.ID, m.Method, m.Params)
		case Notification:
			again = AppendNotification(nil, m.Method, m.Params)
		case Response:
			again = append(append(AppendResultHeader(nil, m.ID), m.Result...), '}')
		case ErrorResponse:
			again = AppendError(nil, m.ID, m.Err)
		}
		m2, err := Decode(again)
		if err != nil || m2.Kind != m.Kind || m2.ID != m.ID || m2.Method != m.Method || !bytes.Equal(m2.Result, m.Result) {
			t.Fatalf("%q became %q: %v", text, again, err)
		}
	})
}
