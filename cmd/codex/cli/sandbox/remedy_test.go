package sandbox

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"codex.internal/pkg/sandbox/egress"
)

// rules returns the rules that package egress declares.
func rules(t *testing.T) (list []egress.Rule) {
	f, err := parser.ParseFile(token.NewFileSet(), "../../../../pkg/sandbox/egress/decide.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Rule" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, egress.Rule(text))
		}
		return true
	})
	return list
}

// TestEveryRuleHasARemedy: the client knows what to say for each rule by which the server refuses, and repeats no rule that is gone.
func TestEveryRuleHasARemedy(t *testing.T) {
	list := rules(t)
	if len(list) < 10 {
		t.Fatalf("got %v: the declaration was not found", list)
	}
	for _, rule := range list {
		if remedies[rule].why == "" {
			t.Errorf("%s: the table says nothing", rule)
		}
	}
	if len(remedies) != len(list) {
		t.Errorf("the table has %d rules, want %d", len(remedies), len(list))
	}
}

// TestRefusedHosts: a message says the rule, and advises what helps: not what was given already, and no option if none can
// help. Options have only names that are harmless in a shell. A name from a DNS query has no port, so the suggested option permits
// every port.
func TestRefusedHosts(t *testing.T) {
	const use = "; to let the command reach them use "
	unlisted := func(host string, port uint16) Refusal {
		return Refusal{Endpoint: Endpoint{host, port}, Rule: egress.RuleUnlisted, Detail: "no pattern"}
	}
	by := func(rule egress.Rule, detail string) []Refusal {
		return []Refusal{{Endpoint: Endpoint{"a.test", 443}, Rule: rule, Reason: "r", Detail: detail}}
	}
	const nothing = " (no --allow-domain permits it)"
	for _, tt := range []struct {
		refused []Refusal
		given   []string // patterns of --allow-domain
		private bool
		want    string
	}{
		{[]Refusal{unlisted("a.test", 443)}, nil, false, "a.test port 443" + nothing + use + "--allow-domain a.test:443"},
		{[]Refusal{unlisted("::1", 80)}, nil, false, "::1 port 80" + nothing + use + "--allow-domain [::1]:80"},
		{[]Refusal{unlisted("a.test", 0), unlisted("b.test", 22)}, nil, false,
			"a.test" + nothing + ", b.test port 22" + nothing + use + "--allow-domain a.test --allow-domain b.test:22"},
		{[]Refusal{unlisted("b\u00fccher.test", 0)}, nil, false, `b\u00fccher.test` + nothing + use + "--allow-domain b\u00fccher.test"},
		// The user's shell must not execute a name that a command chose.
		{[]Refusal{unlisted("a&b$(c)'~.test", 443)}, nil, false, "a&b$(c)'~.test port 443" + nothing + use + "--allow-domain"},
		{[]Refusal{unlisted("a$b.test", 0), unlisted("a-b_c.test", 22)}, nil, false,
			"a$b.test" + nothing + ", a-b_c.test port 22" + nothing + use + "--allow-domain a-b_c.test:22"},
		// An internal mirror: --allow-domain was given, and does not help alone.
		{by(egress.RulePrivate, "it resolves to 10.0.0.5"), []string{"a.test"}, false,
			"a.test port 443 (its address is not public: it resolves to 10.0.0.5)" + use + "--allow-private"},
		{by(egress.RulePrivate, "x"), nil, false, "a.test port 443 (its address is not public: x)" + use + "--allow-domain a.test:443 --allow-private"},
		{by(egress.RulePrivate, ""), nil, true, "a.test port 443 (its address is not public)"},
		// No option of the client can help.
		{by(egress.RuleServerPolicy, "the server's egress policy: default"), []string{"a.test"}, false,
			"a.test port 443 (the server's egress policy refuses it: default); " +
				"only the operator of the server can permit it, in the file of codex exec-server --egress-policy"},
		{by(egress.RuleUnresolved, "it does not resolve"), []string{"a.test"}, true,
			"a.test port 443 (the server cannot resolve the name); check the name, and the DNS of the server"},
		// Servers that tell no rule, and rules of later servers.
		{[]Refusal{{Endpoint: Endpoint{"a.test", 80}, Reason: egress.ReasonLocal}}, []string{"*"}, false, "a.test port 80 (its address is not public)" + use + "--allow-private"},
		{by("later", "some\u202edetail"), nil, false, `a.test port 443 (r: some\u202edetail)`},
	} {
		given, err := egress.ParseEndpoints(tt.given)
		if err != nil {
			t.Fatal(err)
		}
		if got := RefusedHosts(tt.refused, given, tt.private); got != "the network proxy of the command refused "+tt.want {
			t.Errorf("%v:\ngot  %q\nwant %q", tt.refused, got, "the network proxy of the command refused "+tt.want)
		}
	}
	for _, rule := range rules(t) {
		given, _ := egress.ParseEndpoints([]string{"a.test:443"})
		if got := RefusedHosts(by(rule, ""), given, true); strings.Contains(got, "use --allow") {
			t.Errorf("%s: %q advises what was given", rule, got)
		}
	}
}
