package envpolicy

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// matches reports whether a pattern matches a name.
func matches(pattern, name string) bool { return compile([]string{pattern}).match(fold(name)) }

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "", true},
		{"", "A", false},
		{"*", "", true},
		{"?", "", false},
		{"*KEY*", "my_key", true},
		{"*KEY*", "KEY", true},
		{"KEY", "MONKEY", false},
		{"a?c", "ABC", true},
		{"a?c", "AC", false},
		{"**a**", "aaa", true},
		{"*a*b*c", "xaybzc", true},
		{"*a*b*c", "xaybzcd", false},
		{"*ab***", "xab", true},
		{"?a", "Éa", true},
		{"é*", "ÉA", true},
		{"\u212aelvin", "Kelvin", true}, // the Kelvin sign is a K
		{"s*", "\u017fx", false},        // a long s is not the lower case of any other letter
		{"[x]", "x", false},
		{"a.b", "axb", false},
		{`\*`, "*", false},
		{"bad?", "BAD\xff", true},
	} {
		if got := matches(tt.pattern, tt.name); got != tt.want {
			t.Errorf("%q matches %q: %v", tt.pattern, tt.name, got)
		}
	}
}

// TestMatchIsNotExponential would not end if the matcher tried every way to distribute a name over
// the stars.
func TestMatchIsNotExponential(t *testing.T) {
	if matches(strings.Repeat("*a", 200)+"b", strings.Repeat("a", 2000)) {
		t.Error("matched")
	}
}

// FuzzMatch compares the matcher with a regular expression.
func FuzzMatch(f *testing.F) {
	for _, s := range [][2]string{
		{"*KEY*", "my_key"}, {"a?c", "ABC"}, {"", ""}, {"**a", "aaa"}, {"*a*b*c", "xaybzc"}, {"*ab***", "xab"}, {"é?", "ÉK"}, {"(+[", "(+["},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 100 || len(name) > 1000 || !utf8.ValidString(pattern) || !utf8.ValidString(name) {
			return
		}
		var re strings.Builder
		for _, c := range fold(pattern) {
			switch c {
			case '*':
				re.WriteString(".*")
			case '?':
				re.WriteString(".")
			default:
				re.WriteString(regexp.QuoteMeta(string(c)))
			}
		}
		want := regexp.MustCompile("(?s)^(?:" + re.String() + ")$").MatchString(string(fold(name)))
		if matches(pattern, name) != want {
			t.Errorf("%q matches %q: %v", pattern, name, !want)
		}
	})
}
