package remote

import "testing"

func TestEscapes(t *testing.T) {
	for _, c := range []struct {
		typed       []string
		want        string
		leave, help bool
	}{
		{typed: []string{"ls\r"}, want: "ls\r"},
		{typed: []string{"~."}, leave: true},
		{typed: []string{"ls\r", "~", "."}, want: "ls\r", leave: true},
		{typed: []string{"ls ~."}, want: "ls ~."},
		{typed: []string{"~/bin\r"}, want: "~/bin\r"},
		{typed: []string{"~~.\r"}, want: "~.\r"},
		{typed: []string{"~?", "x"}, want: "x", help: true},
		{typed: []string{"~", "\r~."}, want: "~\r", leave: true},
		{typed: []string{"\n~.rest"}, want: "\n", leave: true},
	} {
		var e escapes
		got, leave, help := "", false, false
		for _, keys := range c.typed {
			own, left, asked := e.feed([]byte(keys))
			got += string(own)
			leave, help = leave || left, help || asked
			if left {
				break
			}
		}
		if got != c.want || leave != c.leave || help != c.help {
			t.Errorf("%q: sent %q, leave %v, help %v; want %q, %v, %v", c.typed, got, leave, help, c.want, c.leave, c.help)
		}
	}
}
