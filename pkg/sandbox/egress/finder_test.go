package egress

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestFinder: texts are found wherever the stream is split, and only a possible beginning of a text
// is held back.
func TestFinder(t *testing.T) {
	texts := [][]byte{[]byte("secret"), []byte("******"), []byte("se")}
	for text, want := range map[string]string{
		"": "", "s": "s", "abc": "abc", "a secret.": "a ******.", "secretsecret": "************", "ssecret": "s******", "xx********": "xx********",
		"sseret": "s**ret", "secre": "**cre", "s******cret": "s******cret", "sesecret": "********",
	} {
		for name, from := range map[string]io.Reader{
			"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text)), "with the end": iotest.DataErrReader(strings.NewReader(text)),
		} {
			f := &finder{from: from, texts: texts, found: func([]byte) error { return nil }}
			if got, err := io.ReadAll(f); err != nil || string(got) != want {
				t.Errorf("%q, %s: got %q, error %v; want no error, %q", text, name, got, err, want)
			}
		}
	}
	from, to := io.Pipe()
	f := &finder{from: from, texts: texts[:1], found: func([]byte) error { return errPlaceholder }}
	go func() {
		_, _ = io.WriteString(to, "event\n")
		_, _ = io.WriteString(to, "sec")
		_, _ = io.WriteString(to, "ret, and more")
	}()
	b := make([]byte, 16)
	if n, err := f.Read(b); err != nil || string(b[:n]) != "event\n" {
		t.Errorf("got b[:n] %q, error %v; want no error, b[:n] %q", b[:n], err, "event\n")
	}
	if n, err := f.Read(b); n != 0 || !errors.Is(err, errPlaceholder) {
		t.Errorf("got b[:n] %q, error %v; want n 0, error %v", b[:n], err, errPlaceholder)
	}
}

// FuzzFinder: the result is the stream with every text replaced, wherever the stream is split.
func FuzzFinder(f *testing.F) {
	f.Add("a secret, a sesecret", "secret", byte(3))
	f.Add("aaab", "aab", byte(1))
	f.Fuzz(func(t *testing.T, stream, text string, size byte) {
		if text == "" || size == 0 || strings.Contains(text, "*") {
			return
		}
		found := 0
		x := &finder{texts: [][]byte{[]byte(text)}, found: func([]byte) error { found++; return nil }}
		x.from = &cut{strings.NewReader(stream), int(size)}
		got, err := io.ReadAll(x)
		want := strings.ReplaceAll(stream, text, strings.Repeat("*", len(text)))
		if err != nil || string(got) != want || found != strings.Count(stream, text) {
			t.Errorf("%q without %q in pieces of %d: %q, %v, found %d times", stream, text, size, got, err, found)
		}
	})
}

// cut is a reader that returns at most size bytes per read.
type cut struct {
	r    io.Reader
	size int
}

func (c *cut) Read(p []byte) (int, error) { return c.r.Read(p[:min(len(p), c.size)]) }
