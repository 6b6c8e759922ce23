package httpclient

import "testing"

func TestStatusText(t *testing.T) {
	for status, want := range map[int]string{200: "200 OK", 404: "404 Not Found", 499: "499 <unknown status code>"} {
		if got := StatusText(status); got != want {
			t.Errorf("%d: got %q, want %q", status, got, want)
		}
	}
}

func TestPlainText(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"two\nlines\tüml":         "two\nlines\tüml",
		"\x1b[2Jcleared\r\a":      "�[2Jcleared��",
		"\u202eright to left":     "�right to left",
		"\u009b2J\x7f no UTF\xff": "�2J� no UTF�",
	} {
		if got := PlainText(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
