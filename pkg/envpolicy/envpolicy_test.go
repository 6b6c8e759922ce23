package envpolicy

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestEnviron(t *testing.T) {
	server := []string{"PATH=/bin", "HOME=/h", "A=1", "API_KEY=k", "my_token=t", "=odd", "broken"}
	for _, tt := range []struct {
		name string
		p    *Policy
		env  map[string]string
		want string
	}{
		{"no policy", nil, map[string]string{"B": "2", "C": ""}, "B=2 C="},
		{"none", &Policy{Inherit: "none", Set: map[string]string{"S": "1"}}, map[string]string{"B": "2"}, "B=2 S=1"},
		{"core", &Policy{Inherit: "core"}, nil, "HOME=/h PATH=/bin"},
		{"all drops secrets", &Policy{Inherit: "all"}, nil, "A=1 HOME=/h PATH=/bin"},
		{"unless told not to", &Policy{Inherit: "all", IgnoreDefaultExcludes: true}, nil, "A=1 API_KEY=k HOME=/h PATH=/bin my_token=t"},
		{"exclude", &Policy{Inherit: "all", Exclude: []string{"hom?", "p*"}}, nil, "A=1"},
		{"set comes after exclude", &Policy{Inherit: "all", Exclude: []string{"*"}, Set: map[string]string{"MY_KEY": "x"}}, nil, "MY_KEY=x"},
		{"include only", &Policy{Inherit: "all", Set: map[string]string{"S": "1", "HOT": "2"}, IncludeOnly: []string{"ho*"}}, map[string]string{"X": "1"}, "HOME=/h HOT=2 X=1"},
		{"env over all", &Policy{Inherit: "all", IncludeOnly: []string{"PATH"}}, map[string]string{"PATH": "/x"}, "PATH=/x"},
	} {
		if got := strings.Join(Environ(server, tt.p, tt.env), " "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// FuzzMatch compares with a regular expression.
func FuzzMatch(f *testing.F) {
	for _, s := range [][2]string{{"*KEY*", "my_key"}, {"a?c", "ABC"}, {"", ""}, {"**a", "aaa"}, {"*a*b*c", "xaybzc"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 50 || strings.ContainsFunc(pattern+name, func(r rune) bool { return r > 126 || r < 32 }) {
			return
		}
		var re strings.Builder
		for _, c := range strings.ToUpper(pattern) {
			switch c {
			case '*':
				re.WriteString(".*")
			case '?':
				re.WriteString(".")
			default:
				re.WriteString(regexp.QuoteMeta(string(c)))
			}
		}
		want := regexp.MustCompile("^" + re.String() + "$").MatchString(strings.ToUpper(name))
		if Match(pattern, name) != want {
			t.Errorf("Match(%q, %q) = %v", pattern, name, !want)
		}
	})
}

func TestCoreHasNoSecrets(t *testing.T) {
	if slices.ContainsFunc(Core, func(n string) bool { return matchAny(DefaultExcludes, n) }) {
		t.Error("a core variable is excluded by default")
	}
}
