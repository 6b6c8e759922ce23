package envpolicy

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestEnviron(t *testing.T) {
	server := []string{
		"PATH=/bin", "HOME=/h", "A=1", "API_KEY=k", "my_token=t", "EQ=a=b", "BAD=\xff", "path=lower", "=odd", "broken",
	}
	all := []string{"A=1", "BAD=\xff", "EQ=a=b", "HOME=/h", "PATH=/bin", "path=lower"}
	secrets := []string{"API_KEY=k", "my_token=t"}
	for _, tt := range []struct {
		name string
		p    *Policy
		env  map[string]string
		want []string
	}{
		{"no policy: exactly what is asked for", nil, map[string]string{"B": "2", "C": ""}, []string{"B=2", "C="}},
		{"no policy and nothing asked for", nil, nil, []string{}},
		{"odd names are passed on", nil, map[string]string{"": "x", "A=B": "c"}, []string{"=x", "A=B=c"}},
		{"none", &Policy{Inherit: InheritNone, Set: map[string]string{"S": "1"}}, map[string]string{"B": "2"}, []string{"B=2", "S=1"}},
		{"an unknown word inherits nothing", &Policy{Inherit: "everything"}, nil, []string{}},
		{"core, whatever its case", &Policy{Inherit: InheritCore}, nil, []string{"HOME=/h", "PATH=/bin", "path=lower"}},
		{"core can be narrowed", &Policy{Inherit: InheritCore, Exclude: []string{"path"}}, nil, []string{"HOME=/h"}},
		{"all without what looks secret", &Policy{Inherit: InheritAll}, nil, all},
		{"all with secrets", &Policy{Inherit: InheritAll, IgnoreDefaultExcludes: true}, nil, slices.Sorted(slices.Values(append(secrets, all...)))},
		{"exclude", &Policy{Inherit: InheritAll, Exclude: []string{"hom?", "p*", "BAD", "eq"}}, nil, []string{"A=1"}},
		{"set comes after the excludes", &Policy{Inherit: InheritAll, Exclude: []string{"*"}, Set: map[string]string{"MY_KEY": "x"}}, nil, []string{"MY_KEY=x"}},
		{
			"set goes over what is inherited",
			&Policy{Inherit: InheritCore, Set: map[string]string{"HOME": "/set"}, IncludeOnly: []string{"home"}}, nil, []string{"HOME=/set"},
		},
		{
			"include only filters what is inherited and set, not what is asked for",
			&Policy{Inherit: InheritAll, Set: map[string]string{"S": "1", "HOT": "2"}, IncludeOnly: []string{"ho*"}},
			map[string]string{"X": "1"}, []string{"HOME=/h", "HOT=2", "X=1"},
		},
		{"what is asked for goes over all", &Policy{Inherit: InheritAll, IncludeOnly: []string{"HOME"}}, map[string]string{"HOME": "/x"}, []string{"HOME=/x"}},
		{"an empty pattern matches no name", &Policy{Inherit: InheritAll, IncludeOnly: []string{""}}, nil, []string{}},
	} {
		if got := Environ(server, tt.p, tt.env); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestEnvironChangesNoArgument(t *testing.T) {
	server := []string{"PATH=/bin"}
	set, env := map[string]string{"S": "1"}, map[string]string{"E": "2"}
	p := &Policy{Inherit: InheritAll, Set: set, IncludeOnly: []string{"x"}}
	Environ(server, p, env)
	Environ(server, nil, env)
	p.Apply(server)["NEW"] = "3"
	if !maps.Equal(set, map[string]string{"S": "1"}) || !maps.Equal(env, map[string]string{"E": "2"}) {
		t.Errorf("set %v, env %v", set, env)
	}
}

func TestCoreIsNotExcludedByDefault(t *testing.T) {
	excludes := compile(DefaultExcludes())
	for _, name := range Core() {
		if excludes.match(fold(name)) {
			t.Errorf("%s is excluded", name)
		}
	}
}

func BenchmarkEnviron(b *testing.B) {
	var server []string
	for _, name := range strings.Fields(strings.Repeat("SOME_VARIABLE_NAME ", 50)) {
		server = append(server, name+string(rune('A'+len(server)))+"=some value")
	}
	p := &Policy{Inherit: InheritAll, Exclude: []string{"AWS_*", "*PASS*"}}
	env := map[string]string{"A": "1", "B": "2"}
	b.ReportAllocs()
	for b.Loop() {
		Environ(server, p, env)
	}
}
