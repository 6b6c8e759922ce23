package jsonwire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestSkipAcceptsWhatIsJSON(t *testing.T) {
	for _, text := range []string{
		`null`, ` true `, `false`, `0`, `-0`, `12.5e-3`, `""`, `"a\u00e9\ud83d\ude00\"\\"`,
		`[]`, `[1,[2,{}]]`, `{"a":{"b":[null]}}`, "\t{ \"a\" : 1 }\n", `"é"`,
		strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth),
	} {
		r := NewReader([]byte(text))
		if err := errors.Join(r.Skip(), r.End()); err != nil {
			t.Errorf("%s: got error %v, want no error", text, err)
		}
	}
}

func TestSkipRefusesWhatIsNot(t *testing.T) {
	for _, text := range []string{
		``, ` `, `nul`, `truE`, `01`, `1.`, `.5`, `1e`, `+1`, `-`, `"`, `"\`, `"\x"`, `"\u12"`,
		`"\ud800"`, `"\ud800\u0041"`, `"\udc00"`, "\"\x1f\"", "\"\xff\"", `[`, `[1`, `[1,]`, `[,]`, `{`, `{"a"}`,
		`{"a":}`, `{"a":1,}`, `{a:1}`, `{1:2}`, `[1 2]`, `{} {}`, "\ufeff{}", `'a'`, `NaN`,
		strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1),
	} {
		r := NewReader([]byte(text))
		err := errors.Join(r.Skip(), r.End())
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%q: %v, want a syntax error", text, err)
		}
	}
}

func TestTypedReads(t *testing.T) {
	uint16s := func(r *Reader) (any, error) { return r.Uint(1<<16-1, "u16") }
	for _, tt := range []struct {
		text string
		read func(r *Reader) (any, error)
		want any
		err  string
	}{
		{`true`, func(r *Reader) (any, error) { return r.Bool() }, true, ""},
		{`5`, func(r *Reader) (any, error) { return r.Bool() }, false, "invalid type: number `5`, expected a boolean"},
		{`null`, func(r *Reader) (any, error) { return r.Bool() }, false, "invalid type: null, expected a boolean"},
		{`65535`, uint16s, uint64(65535), ""},
		{`65536`, uint16s, uint64(0), "invalid value: integer `65536`, expected u16"},
		{`-1`, uint16s, uint64(0), "invalid value: integer `-1`, expected u16"},
		{`1.0`, uint16s, uint64(0), "invalid type: number `1.0`, expected u16"},
		{`"x"`, uint16s, uint64(0), `invalid type: string "x", expected u16`},
		{`-9223372036854775808`, func(r *Reader) (any, error) { return r.Int64("i64") }, int64(-1 << 63), ""},
		{`9223372036854775808`, func(r *Reader) (any, error) { return r.Int64("i64") }, int64(0), "invalid value: integer `9223372036854775808`, expected i64"},
		{`"a\n\u0041\ud83d\ude00/"`, func(r *Reader) (any, error) { return r.String() }, "a\nA\U0001F600/", ""},
		{`[1]`, func(r *Reader) (any, error) { return r.String() }, "", "invalid type: sequence, expected a string"},
		{`[1,}`, func(r *Reader) (any, error) { return r.String() }, "", "expected value at offset 3"},
	} {
		got, err := tt.read(NewReader([]byte(tt.text)))
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != tt.want || text != tt.err {
			t.Errorf("%s: %v, %q; want %v, %q", tt.text, got, text, tt.want, tt.err)
		}
	}
}

func TestStringsAliasTheText(t *testing.T) {
	text := []byte(`"abc"`)
	got, err := NewReader(text).StringBytes()
	if err != nil {
		t.Fatal(err)
	}
	text[1] = 'x'
	if string(got) != "xbc" {
		t.Errorf("got %q: the string was copied", got)
	}
}

// FuzzReader compares with encoding/json which texts are accepted, and the decoded strings.
func FuzzReader(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,"\u00e9\ud83d\ude00"],"b":null}`, `"\ud800"`, "\"\xff\"", `[[[]]]`, `-0.1e+5`, ``, `"a\"b"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := NewReader(text)
		err := r.Skip()
		if err == nil {
			err = r.End()
		}
		if err == nil && !json.Valid(text) {
			t.Fatalf("accepted %q, which is no JSON", text)
		}
		if err != nil && json.Valid(text) && !stricter(err) {
			t.Fatalf("refused %q: %v", text, err)
		}
		var want string
		if err == nil && json.Unmarshal(text, &want) == nil && NewReader(text).Peek() == String {
			if got, err := NewReader(text).String(); err != nil || got != want {
				t.Fatalf("%q read as %q, %v; want %q", text, got, err, want)
			}
		}
	})
}

// stricter reports whether err is about something that encoding/json accepts: invalid UTF-8,
// lone surrogates and deep nesting.
func stricter(err error) bool {
	for _, s := range []string{"code point", "lone surrogate", "recursion"} {
		if strings.Contains(err.Error(), s) {
			return true
		}
	}
	return false
}

func FuzzAppendString(f *testing.F) {
	f.Add("plain")
	f.Add("\x00\"\\\n\xff é \u2028")
	f.Fuzz(func(t *testing.T, s string) {
		b := AppendString(nil, s)
		var got string
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%q: got error %v, want no error", b, err)
		}
		if want := strings.ToValidUTF8(s, "\uFFFD"); got != want && strings.ReplaceAll(got, "\uFFFD", "") != strings.ReplaceAll(want, "\uFFFD", "") {
			t.Fatalf("%q came back as %q", s, got)
		}
		if !bytes.Equal(b, AppendString(nil, []byte(s))) {
			t.Fatalf("%q: bytes and string differ", s)
		}
	})
}

func BenchmarkReadLongString(b *testing.B) {
	text := append(append([]byte{'"'}, bytes.Repeat([]byte("QUJD"), 8<<20)...), '"')
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewReader(text).StringBytes(); err != nil {
			b.Fatal(err)
		}
	}
}
