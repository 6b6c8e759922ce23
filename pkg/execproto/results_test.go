package execproto

import (
	"strings"
	"testing"
)

func FuzzDecodeReadFileResult(f *testing.F) {
	fuzzDecoder(f, DecodeReadFileResult, `{"dataBase64":"aGk="}`)
}

func FuzzDecodeReadBlockResult(f *testing.F) {
	fuzzDecoder(f, DecodeReadBlockResult, `{"chunk":"aGk=","eof":true}`)
}

func TestResultsOfFiles(t *testing.T) {
	for text, want := range map[string]string{
		`{"chunk":"aGk=","eof":true,"more":1}`: "",
		`{"chunk":"aGk="}`:                     "missing field `eof`",
		`{"eof":true}`:                         "missing field `chunk`",
		`{"chunk":"a","eof":true}`:             "chunk: ",
		`null`:                                 "",
	} {
		r, err := DecodeReadBlockResult([]byte(text))
		switch {
		case want == "" && text != "null":
			if err != nil || string(r.Chunk) != "hi" || !r.EOF {
				t.Errorf("%s: %+v, %v", text, r, err)
			}
		case err == nil || !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if r, err := DecodeReadFileResult([]byte(`{"dataBase64":"aGk="}`)); err != nil || string(r.DataBase64) != "hi" {
		t.Errorf("%+v, %v", r, err)
	}
}
