package egress

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/net/dns/dnsmessage"
)

// madeUp are the networks of the addresses that stand for names in DNS answers. No host on
// the Internet has such an address. The IPv4 network is reserved for benchmarks (RFC 2544),
// and the IPv6 network is a private one with random bits (RFC 4193). The last four bytes of
// an IPv6 address are the IPv4 address for the same name.
var madeUp = [...]netip.Prefix{netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("fd9c:4e1b:a367::/96")}

// isMadeUp reports whether an address belongs to the networks whose addresses stand for names.
func isMadeUp(address netip.Addr) bool {
	return madeUp[0].Contains(address) || madeUp[1].Contains(address)
}

// toIPv6 returns the IPv6 address that stands for the same name as an IPv4 address.
func toIPv6(address netip.Addr) netip.Addr {
	six, four := madeUp[1].Addr().As16(), address.As4()
	copy(six[12:], four[:])
	return netip.AddrFrom16(six)
}

// nameTable holds the names that a process has resolved by DNS. Its methods may be called
// from any goroutine. The zero value is ready to use.
type nameTable struct {
	used, ipv6 atomic.Bool // DNS queries arrive here; IPv6 addresses are captured too

	mu        sync.Mutex
	addresses map[string]netip.Addr
	hosts     map[netip.Addr]string
	refused   map[string]struct{}
}

// address returns the address that stands for a name. A name always gets the same address. ok is
// false if the table is full. No address is reused for a second name: otherwise the process would
// reach a different host from the one that it resolved.
func (n *nameTable) address(host string) (address netip.Addr, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if address, ok := n.addresses[host]; ok {
		return address, true
	}
	if len(n.addresses) >= maxNames {
		return netip.Addr{}, false
	}
	if n.addresses == nil {
		n.addresses, n.hosts = make(map[string]netip.Addr), make(map[netip.Addr]string)
	}
	first := madeUp[0].Addr().As4()
	number := binary.BigEndian.Uint32(first[:]) + uint32(len(n.addresses)) + 1
	address = netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, number)))
	n.addresses[host], n.hosts[address] = address, host
	return address, true
}

// of returns the name for which an address stands.
func (n *nameTable) of(address netip.Addr) (host string, ok bool) {
	if madeUp[1].Contains(address) {
		six := address.As16()
		address = netip.AddrFrom4([4]byte(six[12:]))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	host, ok = n.hosts[address]
	return host, ok
}

// meant returns the name for which an address stands, and any other host unchanged. A process may
// have got such an address by DNS before it connects through the proxy, because SOCKS clients may
// resolve names themselves.
func (n *nameTable) meant(host string) string {
	if address, err := netip.ParseAddr(host); err == nil {
		if name, ok := n.of(address); ok {
			return name
		}
	}
	return host
}

// refuse reports whether a name is refused for the first time. Programs repeat a query many times.
func (n *nameTable) refuse(host string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, found := n.refused[host]; found || len(n.refused) >= maxRefusedNames {
		return false
	}
	if n.refused == nil {
		n.refused = make(map[string]struct{})
	}
	n.refused[host] = struct{}{}
	return true
}

// Codes of Extended DNS Errors (RFC 8914).
const (
	extendedError = 15 // the option
	errorOther    = 0
	errorBlocked  = 15
)

// reply is the answer to a DNS query.
type reply struct {
	code    dnsmessage.RCode
	address netip.Addr // the zero value: no addresses
	reason  uint16     // of an Extended DNS Error, if the text is not empty
	text    string
}

// answerNames returns the answer to a DNS query for any server, or nil if the query is malformed.
// No query leaves this program. An allowed name gets an address that stands for it, and is resolved
// when the process connects. So queries leak nothing.
func (x *Proxy) answerNames(query []byte) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(query)
	if err != nil || head.Response {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	var out reply
	_, err = p.Question()
	switch {
	case err == nil: // a second question
		out.code = dnsmessage.RCodeFormatError
	case head.OpCode != 0:
		out.code = dnsmessage.RCodeNotImplemented
	case q.Class != dnsmessage.ClassINET:
		out.code = dnsmessage.RCodeRefused
	default:
		out = x.lookUp(q)
	}
	answer, err := out.encode(head, q, hasOptions(&p))
	if err != nil {
		return nil
	}
	return answer
}

// hasOptions reports whether a query has an OPT record (RFC 6891). Only then may the answer contain
// a reason.
func hasOptions(p *dnsmessage.Parser) bool {
	if p.SkipAllQuestions() != nil || p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return false
	}
	for {
		h, err := p.AdditionalHeader()
		if err != nil {
			return false
		}
		if h.Type == dnsmessage.TypeOPT {
			return true
		}
		if p.SkipAdditional() != nil {
			return false
		}
	}
}

// lookUp answers a question.
func (x *Proxy) lookUp(q dnsmessage.Question) reply {
	host, ok := normalHost(q.Name.String())
	switch {
	case strings.HasSuffix(host, ".in-addr.arpa") || strings.HasSuffix(host, ".ip6.arpa") || !ok:
		// Many programs query the name of an address without a request by the user.
		return reply{code: dnsmessage.RCodeNameError}
	case isLocalhost(host):
		return loopbackReply(q.Type)
	}
	if d := x.decideName(host); d.verdict != Pass {
		if x.names.refuse(host) {
			x.report(attempt{Question: Question{SOCKS, host, 0}}, d, true)
		}
		return reply{code: dnsmessage.RCodeNameError, reason: errorBlocked, text: refusalOf(d.reason).message}
	}
	six := q.Type == dnsmessage.TypeAAAA && x.names.ipv6.Load()
	if q.Type != dnsmessage.TypeA && q.Type != dnsmessage.TypeALL && !six {
		return reply{} // the name has no other records
	}
	address, ok := x.names.address(host)
	if !ok {
		return reply{code: dnsmessage.RCodeServerFailure, reason: errorOther, text: "the process has asked for too many names"}
	}
	if six {
		address = toIPv6(address)
	}
	return reply{address: address}
}

// loopbackReply answers with the loopback address (RFC 6761, section 6.3).
func loopbackReply(t dnsmessage.Type) reply {
	switch t {
	case dnsmessage.TypeA:
		return reply{address: netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	case dnsmessage.TypeAAAA:
		return reply{address: netip.IPv6Loopback()}
	default:
		return reply{}
	}
}

// encode encodes the reply to a question. The result is shorter than 512 bytes, which every client
// accepts.
func (a reply) encode(head dnsmessage.Header, q dnsmessage.Question, options bool) ([]byte, error) {
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{
		ID: head.ID, Response: true, OpCode: head.OpCode, RecursionDesired: head.RecursionDesired, RecursionAvailable: true, RCode: a.code,
	})
	b.EnableCompression()
	if err := b.StartQuestions(); err != nil {
		return nil, err
	}
	if err := b.Question(q); err != nil {
		return nil, err
	}
	if err := b.StartAnswers(); err != nil {
		return nil, err
	}
	record := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: nameTTL}
	switch {
	case a.address.Is4():
		if err := b.AResource(record, dnsmessage.AResource{A: a.address.As4()}); err != nil {
			return nil, err
		}
	case a.address.Is6():
		if err := b.AAAAResource(record, dnsmessage.AAAAResource{AAAA: a.address.As16()}); err != nil {
			return nil, err
		}
	}
	if options {
		if err := a.encodeOptions(&b); err != nil {
			return nil, err
		}
	}
	return b.Finish()
}

// encodeOptions encodes the largest size of a query that is accepted, and the reason.
func (a reply) encodeOptions(b *dnsmessage.Builder) error {
	var record dnsmessage.ResourceHeader
	if err := record.SetEDNS0(maxQuery, a.code, false); err != nil {
		return err
	}
	var options dnsmessage.OPTResource
	if a.text != "" {
		data := append(binary.BigEndian.AppendUint16(nil, a.reason), a.text...)
		options.Options = []dnsmessage.Option{{Code: extendedError, Data: data}}
	}
	if err := b.StartAdditionals(); err != nil {
		return err
	}
	return b.OPTResource(record, options)
}
