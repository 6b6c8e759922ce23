package sandbox

import (
	"slices"
	"strings"
	"unicode"

	"codex.internal/pkg/sandbox/egress"
)

// MaxShownDenials bounds the refused hosts that a message names.
const MaxShownDenials = 8

// maxDetail bounds the detail of a refusal in a message, which comes from the server.
const maxDetail = 200

// Refusal is a host that the network proxy of a command has refused. Rule is empty if the server is older or another program;
// then Reason tells less.
type Refusal struct {
	Endpoint
	Rule   egress.Rule
	Reason string
	Detail string
}

// remedy is what a message says about the refusals by one rule. At most one of the remedies is set; without one nothing that the
// user of this program can do would help.
type remedy struct {
	why     string
	allow   bool   // --allow-domain permits it
	private bool   // so does --allow-private, with --allow-domain
	advice  string // another remedy
	detail  bool   // the detail of the refusal tells the user more
}

// remedies has what to say for each rule of the server.
var remedies = map[egress.Rule]remedy{
	egress.RuleUnlisted:   {why: "no --allow-domain permits it", allow: true},
	egress.RuleAnswer:     {why: "no --allow-domain permits it", allow: true}, // this program has answered so, without asking its user
	egress.RuleNoAnswer:   {why: "the question about it was not answered", allow: true},
	egress.RuleDenied:     {why: "the permissions of the command deny it", detail: true},
	egress.RulePrivate:    {why: "its address is not public", detail: true, private: true},
	egress.RuleUnresolved: {why: "the server cannot resolve the name", advice: "check the name, and the DNS of the server"},
	egress.RuleStandIn:    {why: "the address stands for no name", advice: "connect by name, and resolve the name in the same command"},
	egress.RuleServerPolicy: {why: "the server's egress policy refuses it", detail: true,
		advice: "only the operator of the server can permit it, in the file of codex exec-server --egress-policy"},
	egress.RuleServerPrivate: {why: "its address is not public, and the server does not permit that", detail: true,
		advice: "only the operator of the server can permit it, by private in the file of codex exec-server --egress-policy"},
	egress.RuleLimited:     {why: "the limited mode permits only GET, HEAD and OPTIONS without TLS"},
	egress.RuleUnixSocket:  {why: "the proxy reaches no Unix sockets"},
	egress.RulePlaceholder: {why: "the request had the placeholder of a credential that is for another host"},
}

// byReason has the rule to assume for a reason without a rule.
var byReason = map[string]egress.Rule{
	egress.ReasonNotAllowed: egress.RuleUnlisted, egress.ReasonLocal: egress.RulePrivate, egress.ReasonDenied: egress.RuleDenied,
	egress.ReasonMethod: egress.RuleLimited, egress.ReasonMITM: egress.RuleLimited,
}

// remedy returns what to say about a refusal. For a rule that this program does not know, from a newer server, it
// repeats what the server has said.
func (r Refusal) remedy() remedy {
	rule := r.Rule
	if rule == "" {
		rule = byReason[r.Reason]
	}
	known, ok := remedies[rule]
	if !ok {
		known.why = shown(r.Reason)
		known.detail = true
	}
	if detail := shown(strings.TrimPrefix(r.Detail, "the server's egress policy: ")); known.detail && detail != "" {
		known.why += ": " + detail
	}
	return known
}

// shown returns a text of the server for a message.
func shown(text string) string { return visibleHost(text[:min(len(text), maxDetail)]) }

// RefusedHosts returns a message with the hosts that the network proxy of a command has refused, the rules, and what would
// help. permitted are the patterns of --allow-domain, and private is --allow-private: the message does not advise what was given. The
// command chooses the names, and users paste options from messages. So the message has an option only if no shell interprets
// characters in it.
func RefusedHosts(refused []Refusal, permitted *egress.Endpoints, private bool) string {
	var hosts, options, advice []string
	add := func(list *[]string, text string) {
		if text != "" && !slices.Contains(*list, text) {
			*list = append(*list, text)
		}
	}
	unsafe, wantsPrivate := false, false
	for _, r := range refused {
		m := r.remedy()
		add(&hosts, r.String()+" ("+m.why+")")
		add(&advice, m.advice)
		if (m.allow || m.private && !private) && permitted.Match(r.Host, r.Port) == "" {
			if strings.IndexFunc(r.Host, hasMeaning) < 0 {
				add(&options, "--allow-domain "+r.Option())
			} else {
				unsafe = true
			}
		}
		wantsPrivate = wantsPrivate || m.private && !private
	}
	if unsafe && len(options) == 0 {
		add(&options, "--allow-domain")
	}
	if wantsPrivate {
		add(&options, "--allow-private")
	}
	text := "the network proxy of the command refused " + strings.Join(hosts, ", ")
	if len(options) > 0 {
		text += "; to let the command reach them use " + strings.Join(options, " ")
	}
	for _, a := range advice {
		text += "; " + a
	}
	return text
}

// hasMeaning reports whether a shell may interpret a character of a host.
func hasMeaning(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r) && !strings.ContainsRune(".-_:", r)
}
