package remote

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLogFilter(t *testing.T) {
	const text = "time=2026-11-23T07:41:53.238Z level=INFO msg=listening\n" +
		"time=2026-11-23T07:41:53.238Z level=DEBUG-4 msg=x\n" +
		"time=2026-11-23T07:41:53.238Z level=WARN msg=\"level=INFO\"\n" +
		"{\"time\":\"2026-11-23T07:41:53Z\",\"level\":\"INFO\",\"msg\":\"x\"}\n" +
		"{\"time\":\"2026-11-23T07:41:53Z\",\"level\":\"ERROR\",\"msg\":\"x\"}\n" +
		"\ntime flies\nssh: level=INFO\nPassword: "
	const want = "time=2026-11-23T07:41:53.238Z level=WARN msg=\"level=INFO\"\n" +
		"{\"time\":\"2026-11-23T07:41:53Z\",\"level\":\"ERROR\",\"msg\":\"x\"}\n" +
		"\ntime flies\nssh: level=INFO\nPassword: "
	long := "time=" + strings.Repeat("x", 2*maxLogStart) + "\n"
	for name, in := range map[string]io.Reader{
		"at once": strings.NewReader(long + text), "byte by byte": iotest.OneByteReader(strings.NewReader(long + text)),
		"in halves": iotest.HalfReader(strings.NewReader(long + text)),
	} {
		var out strings.Builder
		if _, err := io.Copy(&logFilter{to: &out}, struct{ io.Reader }{in}); err != nil || out.String() != long+want {
			t.Errorf("%s: got stdout %q, error %v; want no error, stdout %q", name, out.String(), err, long+want)
		}
	}
}

func FuzzLogFilter(f *testing.F) {
	f.Add([]byte("time=x level=INFO y\nz"), 3)
	f.Add([]byte("{\"time\":\"\",\"level\":\"INFO\"}\n"), 1)
	f.Add([]byte("Password: "), 2)
	f.Fuzz(func(t *testing.T, text []byte, at int) {
		var whole, parts strings.Builder
		_, _ = (&logFilter{to: &whole}).Write(append(text, '\n'))
		cut := 0
		if len(text) > 0 {
			cut = ((at % len(text)) + len(text)) % len(text)
		}
		f := &logFilter{to: &parts}
		_, _ = f.Write(text[:cut])
		_, _ = f.Write(append(text[cut:len(text):len(text)], '\n'))
		if len(text) < maxLogStart && whole.String() != parts.String() {
			t.Errorf("%q in two parts: %q, whole %q", text, parts.String(), whole.String())
		}
	})
}
