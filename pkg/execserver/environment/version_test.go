package environment

import "testing"

func TestExecutorVersion(t *testing.T) {
	for own, want := range map[string]string{
		"":                    "0.171.0",
		"devel-01fb120c93f8":  "0.171.0+devel-01fb120c93f8",
		"1.2.3":               "0.171.0+1.2.3",
		"v1.2.3-rc.1+dirty":   "0.171.0+v1.2.3-rc.1-dirty",
		"..a..b.":             "0.171.0+a.b",
		"ein ganz\neigenes ü": "0.171.0+ein-ganz-eigenes--",
	} {
		if got := executorVersion(own); got != want {
			t.Errorf("%q: %q, want %q", own, got, want)
		}
	}
}
