package execproto

import (
	"strings"
	"testing"
)

func TestDefaults(t *testing.T) {
	for _, text := range []string{`{"handleId":"h","path":"/"}`, `{"handleId":"h","path":"/","mode":null}`} {
		if p, err := Decode[OpenParams]([]byte(text)); err != nil || p.Mode != OpenRead {
			t.Errorf("%s: got p %+v, error %v; want no error, p.Mode %v", text, p, err, OpenRead)
		}
	}
	const request = `{"method":"GET","url":"x","requestId":"r"}`
	if p, err := Decode[HTTPRequestParams]([]byte(request)); err != nil || p.RedirectPolicy != RedirectFollow {
		t.Errorf("%s: got p %+v, error %v; want no error, p.RedirectPolicy %v", request, p, err, RedirectFollow)
	}
	// A result of an older server, and of a newer one.
	for _, text := range []string{`{"nextSeq":1}`, `{"nextSeq":1,"exitCode":null,"chunks":null,"more":{}}`} {
		if r, err := Decode[ReadResult]([]byte(text)); err != nil || r.NextSeq != 1 {
			t.Errorf("%s: got r %+v, error %v; want no error, r.NextSeq 1", text, r, err)
		}
	}
}

func TestResultsOfFiles(t *testing.T) {
	for text, want := range map[string]string{
		`{"chunk":"aGk=","eof":true,"more":1}`: "",
		`{"chunk":"aGk="}`:                     "missing field `eof`",
		`{"eof":true}`:                         "missing field `chunk`",
		`{"chunk":"a","eof":true}`:             "chunk: ",
		`null`:                                 "",
	} {
		r, err := Decode[ReadBlockResult]([]byte(text))
		switch {
		case want == "" && text != "null":
			if err != nil || string(r.Chunk) != "hi" || !r.EOF {
				t.Errorf(`%s: got r %+v, error %v; want no error, r.Chunk "hi", r.EOF true`, text, r, err)
			}
		case err == nil || !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if r, err := Decode[ReadFileResult]([]byte(`{"dataBase64":"aGk="}`)); err != nil || string(r.DataBase64) != "hi" {
		t.Errorf(`got r %+v, error %v; want no error, r.DataBase64 "hi"`, r, err)
	}
}
