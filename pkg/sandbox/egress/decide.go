package egress

import (
	"context"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Protocol is the way in which a process requests a host.
type Protocol string

// The protocols.
const (
	HTTP    Protocol = "http"
	Connect Protocol = "https_connect"
	SOCKS   Protocol = "socks5_tcp"
)

// Verdict is the result of a decision. Ask blocks like Block, and means that the client wants to be
// asked again later.
type Verdict string

// The verdicts.
const (
	Pass  Verdict = "allow"
	Block Verdict = "deny"
	Later Verdict = "ask"
)

// Source is the component that has decided.
type Source string

// The sources.
const (
	Baseline  Source = "baseline_policy" // the patterns and addresses
	Decider   Source = "decider"         // the client
	ModeGuard Source = "mode_guard"      // the limited mode
	State     Source = "proxy_state"     // a limit of the proxy
)

// These reasons have a special meaning; a client may give others.
const (
	ReasonAllow      = "allow"
	ReasonNotAllowed = "not_allowed"
	ReasonLocal      = "not_allowed_local"
	ReasonDenied     = "denied"
	ReasonMethod     = "method_not_allowed"
	ReasonMITM       = "mitm_required"
	ReasonPolicy     = "policy_denied"
	ReasonUnix       = "unix_socket_unsupported"
	// ReasonPlaceholder: the placeholder of a credential was sent to another host.
	ReasonPlaceholder = "credential_placeholder"
)

// Rule is the rule by which a host or request was refused. A client needs it to say what would help: the reasons are those of
// Codex CLI, and one reason has several rules.
type Rule string

// The rules.
const (
	RuleUnlisted      Rule = "unlisted"      // no pattern of the request allows the host
	RuleDenied        Rule = "denied"        // a pattern of the request denies it
	RulePrivate       Rule = "private"       // its address is not public, and the request does not permit that
	RuleUnresolved    Rule = "unresolved"    // the name does not resolve
	RuleStandIn       Rule = "standIn"       // the address is one of those that stand for names, and stands for none
	RuleServerPolicy  Rule = "serverPolicy"  // the egress policy of the server
	RuleServerPrivate Rule = "serverPrivate" // its address is not public, and the egress policy does not permit that
	RuleAnswer        Rule = "answer"        // the client has answered so
	RuleNoAnswer      Rule = "noAnswer"      // the client has not answered
	RuleLimited       Rule = "limited"       // the limited mode
	RuleUnixSocket    Rule = "unixSocket"    // the proxy reaches no Unix sockets
	RulePlaceholder   Rule = "placeholder"   // the placeholder of a credential was sent to another host
)

// Question asks the client about a host that the patterns neither allow nor deny.
type Question struct {
	Protocol Protocol
	Host     string // normalised
	Port     uint16
}

// Answer is the client's answer to a Question. The zero value means that there is no answer, and
// denies.
type Answer struct {
	Verdict Verdict
	Reason  string
}

// decision is the decision about one request.
type decision struct {
	verdict  Verdict
	source   Source
	reason   string
	by       Rule   // what has refused it; "": nothing
	rule     string // the pattern that matched, or what is known besides by, for the log and the client
	override bool   // the client allowed a host that the patterns do not allow
	asked    bool   // the client was asked
	// addresses are the addresses to connect to if the verdict is Pass. All of them were judged.
	// The list is empty if an upstream proxy resolves the name.
	addresses []netip.Addr
}

func blocked(by Rule, reason, rule string) decision {
	return decision{verdict: Block, source: Baseline, by: by, reason: reason, rule: rule}
}

// private returns the refusal of a host whose address is not public.
func (x *Proxy) private(q Question, rule string) decision {
	if !x.ceiling.private(q.Host, q.Port) {
		return blocked(RuleServerPrivate, ReasonLocal, rule)
	}
	return blocked(RulePrivate, ReasonLocal, rule)
}

// decide decides about a normalised host (docs/spec/network.md §4.2). byName is
// true if an upstream proxy would resolve the name. The order of the steps
// matters: no name is resolved before it is allowed, because a look-up alone
// sends the text of the name to its owner.
func (x *Proxy) decide(ctx context.Context, q Question, byName bool) decision {
	if holds(q.Host, x.secrets.foreign(nil)) {
		return misuse() // a look-up would send it to the owner of the name
	}
	p, ceiling := x.policy, x.ceiling
	refusal, mustAsk := ceiling.judge(q)
	if refusal != nil {
		return *refusal
	}
	for _, host := range spellings(q.Host) {
		if rule := p.deny.find(host); rule != "" {
			return blocked(RuleDenied, ReasonDenied, rule)
		}
	}
	address, err := netip.ParseAddr(q.Host)
	literal := err == nil
	if literal && x.names.used.Load() && isMadeUp(address) && !(p.allow.exact[q.Host] && ceiling.private(q.Host, q.Port)) {
		return blocked(RuleStandIn, ReasonLocal, untold)
	}
	local := isLocalhost(q.Host) || literal && !public(address)
	if local && !x.permitsPrivate(q) && !(p.allow.exact[q.Host] && ceiling.private(q.Host, q.Port)) {
		return x.private(q, "no entry names it exactly")
	}
	if (byName || q.Protocol == SOCKS && x.host.opts.TCPUpstream != nil) && !literal && misread(q.Host) {
		return blocked(RuleUnresolved, ReasonLocal, "it does not resolve")
	}
	rule, review := p.allow.find(q.Host), p.review.find(q.Host)
	d := decision{verdict: Pass, source: Baseline, reason: ReasonAllow, rule: rule}
	if rule == "" || review != "" || mustAsk {
		if d = x.ask(ctx, q); d.verdict != Pass {
			return d
		}
	}
	asked := d.asked
	switch {
	case literal:
		d.addresses = []netip.Addr{address.Unmap()}
	case isLocalhost(q.Host):
		d.addresses = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
		x.judgeAddresses(ctx, q, d.addresses, &d)
	default:
		x.resolve(ctx, q, byName, &d)
	}
	d.asked = d.asked || asked
	return d
}

// judgeAddresses applies the rules for addresses to the addresses that a name resolves to.
// Otherwise a process could reach a denied address by a name that resolves to it.
func (x *Proxy) judgeAddresses(ctx context.Context, q Question, addresses []netip.Addr, d *decision) {
	mustAsk := false
	for _, address := range addresses {
		refusal, ask := x.ceiling.judgeAddress(address, q.Port)
		if refusal != nil {
			*d = *refusal
			return
		}
		for _, host := range spellings(address.String()) {
			if rule := x.policy.deny.find(host); rule != "" {
				*d = blocked(RuleDenied, ReasonDenied, rule)
				return
			}
			ask = ask || x.policy.review.find(host) != ""
		}
		mustAsk = mustAsk || ask
	}
	if mustAsk && !d.asked {
		allowed := d.addresses
		if *d = x.ask(ctx, q); d.verdict == Pass {
			d.addresses = allowed
		}
	}
}

// misread reports whether an upstream proxy may take a name for another host. Some proxies map
// names to ASCII, which gives a different name. Proxies with the C library's resolver take
// 2852039166 for the address 169.254.169.254. No pattern and no rule was compared with that other
// host.
func misread(name string) bool {
	return endsInNumber(name) || strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII })
}

// decideName decides about a name in a DNS query, on any port. It resolves nothing and does not ask
// the client: both happen when the process connects.
func (x *Proxy) decideName(host string) decision {
	p := x.policy
	refusal, mustAsk := x.ceiling.judgeName(host)
	if refusal != nil {
		return *refusal
	}
	if rule := p.deny.find(host); rule != "" {
		return blocked(RuleDenied, ReasonDenied, rule)
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return blocked(RuleUnresolved, ReasonLocal, "it is an address")
	}
	rule := p.allow.find(host)
	if (rule == "" || p.review.find(host) != "" || mustAsk) && !x.asks() {
		return blocked(RuleUnlisted, ReasonNotAllowed, noOne)
	}
	return decision{verdict: Pass, source: Baseline, reason: ReasonAllow, rule: rule}
}

// untold is the reason for refusing an address of the networks that stand for names, if DNS has not
// returned that address.
const untold = "DNS has not returned this address"

// noOne is the reason for refusing a host if no client can be asked about it.
const noOne = "no pattern allows it, and no user can be asked"

// asks reports whether a client can be asked.
func (x *Proxy) asks() bool {
	return x.policy.config.AskTime != 0 && x.hooks.Ask != nil && x.asking.Err() == nil
}

// permitsPrivate reports whether the rules for addresses are disabled for a host.
func (x *Proxy) permitsPrivate(q Question) bool {
	return x.policy.config.LocalBinding && x.ceiling.private(q.Host, q.Port)
}

// resolve fills in the addresses of a name, or blocks the name. All its addresses are judged,
// because a process could choose a name that has a public and a private address.
func (x *Proxy) resolve(ctx context.Context, q Question, byName bool, d *decision) {
	bound, done := context.WithTimeout(ctx, resolveTime)
	addresses, err := x.host.resolve(bound, q.Host)
	done()
	for i := range addresses {
		addresses[i] = addresses[i].Unmap().WithZone("")
	}
	if !x.permitsPrivate(q) {
		if (err != nil || len(addresses) == 0) && !byName {
			*d = blocked(RuleUnresolved, ReasonLocal, "it does not resolve")
			return
		}
		for _, address := range addresses {
			if !public(address) {
				*d = x.private(q, "it resolves to "+address.String())
				return
			}
		}
	}
	// With localBinding and no address, the verdict is Pass, and the later connection fails.
	if x.judgeAddresses(ctx, q, addresses, d); d.verdict == Pass && !byName {
		d.addresses = addresses[:min(len(addresses), maxAddresses)]
	}
}

// ask asks the client. The answer is not remembered: the client is asked again about the next
// request.
func (x *Proxy) ask(ctx context.Context, q Question) decision {
	if x.policy.config.AskTime == 0 || x.hooks.Ask == nil {
		return blocked(RuleUnlisted, ReasonNotAllowed, noOne)
	}
	d := decision{verdict: Block, source: Decider, by: RuleNoAnswer, reason: ReasonNotAllowed, rule: "no answer"}
	select {
	case x.questions <- struct{}{}:
		defer func() { <-x.questions }()
	default:
		d.rule = "too many questions are open"
		return d
	}
	ctx, done := context.WithTimeout(ctx, x.policy.config.AskTime+askGrace)
	defer done()
	stop := context.AfterFunc(x.asking, done)
	defer stop()
	// context.AfterFunc cancels ctx in another goroutine, which may not have run yet.
	if ctx.Err() != nil || x.asking.Err() != nil {
		return d
	}
	a := x.hooks.Ask(ctx, q)
	d.asked = true
	if !utf8.ValidString(a.Reason) {
		return d
	}
	switch {
	case a.Verdict == Pass:
		d.verdict, d.override, d.by, d.rule = Pass, true, "", "the client allows it"
	case a.Verdict != Block && a.Verdict != Later || len(a.Reason) > maxReason || hasControl(a.Reason):
	case a.Reason == "":
		d.verdict, d.by, d.reason, d.rule = a.Verdict, RuleAnswer, ReasonPolicy, "the client denies it"
	default:
		d.verdict, d.by, d.reason, d.rule = a.Verdict, RuleAnswer, a.Reason, "the client denies it"
	}
	return d
}

func hasControl(text string) bool {
	for _, r := range text {
		if unicode.IsControl(r) {
			return true
		}
	}
	return false
}

// refusal is the message to the process for a reason. Two of the messages contain the word sandbox:
// Codex CLI takes the failure of a command for a denial of the sandbox if it finds this word.
type refusal struct{ code, message string }

var refusals = map[string]refusal{
	ReasonNotAllowed:  {"blocked-by-allowlist", "Domain not in allowlist."},
	ReasonLocal:       {"blocked-by-allowlist", "Sandbox policy blocks local/private network addresses."},
	ReasonDenied:      {"blocked-by-denylist", "Domain denied by the sandbox policy."},
	ReasonMethod:      {"blocked-by-method-policy", "Method not allowed in limited mode."},
	ReasonMITM:        {"blocked-by-mitm-required", "MITM required for limited HTTPS."},
	ReasonPlaceholder: {"blocked-by-policy", "The request holds a credential placeholder that is for another host."},
}

func refusalOf(reason string) refusal {
	if r, ok := refusals[reason]; ok {
		return r
	}
	return refusal{"blocked-by-policy", "Request blocked by network policy."}
}
