package signin

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestReadBearer(t *testing.T) {
	for _, c := range []struct {
		input, want, rest string
		err               error
	}{
		{"tok-abc\n", "tok-abc", "", nil},
		{"tok-abc\r\nrest", "tok-abc", "rest", nil},
		{strings.Repeat("x", maxBearer) + "\n", strings.Repeat("x", maxBearer), "", nil},
		{strings.Repeat("x", maxBearer+1) + "\n", "", "\n", ErrBearerLine},
		{"tok", "", "", ErrBearerLine},
		{"", "", "", ErrBearerLine},
		{"\n", "", "", ErrBearer},
		{"\r\n", "", "", ErrBearer},
		{"Bearer x\n", "", "", ErrBearer},
		{"x\r\r\n", "", "", ErrBearer},
		{"x\x00\n", "", "", ErrBearer},
		{"x\u00e4\n", "", "", ErrBearer},
	} {
		from := strings.NewReader(c.input)
		got, err := ReadBearer(from)
		if got.Reveal() != c.want || !errors.Is(err, c.err) {
			t.Errorf("%.20q: got %.20q, %v, want %.20q, %v", c.input, got.Reveal(), err, c.want, c.err)
		}
		if rest, _ := io.ReadAll(from); string(rest) != c.rest {
			t.Errorf("%.20q: %q was not read, want %q", c.input, rest, c.rest)
		}
	}
}

func TestBearerGoesOverHTTPS(t *testing.T) {
	for url, want := range map[string]error{
		"https://registry.example": nil, "http://127.0.0.1:9": nil, "http://localhost/x": nil, "http://[::1]:9": nil,
		"http://registry.example": ErrBearerPlaintext, "http://127.0.0.1.example": ErrBearerPlaintext,
	} {
		credential, err := BearerRegistration("tok", url)
		if !errors.Is(err, want) {
			t.Errorf("%s: got error %v, want %v", url, err, want)
		}
		if err != nil {
			continue
		}
		header := http.Header{}
		if err := credential.Authorize(t.Context(), header); err != nil || header.Get("Authorization") != "Bearer tok" {
			t.Errorf("%s: got %v, %v", url, header, err)
		}
		if other, _ := BearerRegistration("tok2", url); !Same(credential, credential) || Same(credential, other) {
			t.Error("Same compares something other than the token")
		}
	}
}

// FuzzReadBearer checks that a bearer is always a valid header value.
func FuzzReadBearer(f *testing.F) {
	f.Add("tok\n")
	f.Add("\r\n")
	f.Fuzz(func(t *testing.T, input string) {
		token, err := ReadBearer(strings.NewReader(input))
		if text := token.Reveal(); err == nil && (text == "" || strings.ContainsAny(text, " \r\n\t\x00") || len(text) > maxBearer) {
			t.Errorf("%q gave %q", input, text)
		}
	})
}
