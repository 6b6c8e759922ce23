package execproto

import "codex.internal/pkg/wire/jsonwire"

// ManagedNetwork says what a caller knows of a proxy that runs on the server's
// machine already and that StartParams.Env names (docs/spec/network.md §3.3).
type ManagedNetwork struct {
	LoopbackPorts                  []uint16
	AllowLocalBinding              bool
	AllowUnixSockets               []string
	DangerouslyAllowAllUnixSockets bool
}

func (p *ManagedNetwork) fields(c *codec) {
	ports(c, "loopbackPorts", omit, &p.LoopbackPorts)
	boolean(c, "allowLocalBinding", 0, &p.AllowLocalBinding)
	texts(c, "allowUnixSockets", omit, &p.AllowUnixSockets)
	boolean(c, "dangerouslyAllowAllUnixSockets", omit, &p.DangerouslyAllowAllUnixSockets)
}

// NetworkProxyLaunch asks for a network proxy of the process
// (docs/spec/network.md §4). AuditMetadata, EnvironmentID and ExecutionID are
// accepted for compatibility with Codex CLI and ignored.
type NetworkProxyLaunch struct {
	Proxy         NetworkProxy
	AuditMetadata AuditMetadata
	EnvironmentID string
	ExecutionID   string
	// PolicyDecisionTimeoutMS is how long the client takes at most to answer a
	// policy request; nil: it is sent none.
	PolicyDecisionTimeoutMS *uint64
}

func (p *NetworkProxyLaunch) fields(c *codec) {
	nested(c, "proxy", need, &p.Proxy)
	nested(c, "auditMetadata", 0, &p.AuditMetadata)
	text(c, "environmentId", orNull|omit, &p.EnvironmentID)
	text(c, "executionId", orNull|omit, &p.ExecutionID)
	optional(c, "policyDecisionTimeoutMs", orNull|omit, &p.PolicyDecisionTimeoutMS, uint64Value)
}

// AuditMetadata says on whose behalf a process has a network proxy.
type AuditMetadata struct {
	ConversationID string
	AppVersion     string
	UserAccountID  string
	AuthMode       string
	Originator     string
	UserEmail      string
	TerminalType   string
	Model          string
	Slug           string
}

func (p *AuditMetadata) fields(c *codec) {
	text(c, "conversationId", orNull|omit, &p.ConversationID)
	text(c, "appVersion", orNull|omit, &p.AppVersion)
	text(c, "userAccountId", orNull|omit, &p.UserAccountID)
	text(c, "authMode", orNull|omit, &p.AuthMode)
	text(c, "originator", orNull|omit, &p.Originator)
	text(c, "userEmail", orNull|omit, &p.UserEmail)
	text(c, "terminalType", orNull|omit, &p.TerminalType)
	text(c, "model", orNull|omit, &p.Model)
	text(c, "slug", orNull|omit, &p.Slug)
}

// NetworkMode says which requests a network proxy permits.
type NetworkMode string

// The modes. NetworkLimited permits reading over plain HTTP alone.
const (
	NetworkLimited NetworkMode = "limited"
	NetworkFull    NetworkMode = "full"
)

var networkModes = []NetworkMode{NetworkLimited, NetworkFull}

// DomainPermission is what a network proxy does with the hosts of a pattern.
type DomainPermission string

// The permissions. DomainNone is as if the pattern were absent.
const (
	DomainNone  DomainPermission = "none"
	DomainAllow DomainPermission = "allow"
	DomainDeny  DomainPermission = "deny"
)

var (
	domainPermissions = []DomainPermission{DomainNone, DomainAllow, DomainDeny}
	socketPermissions = []DomainPermission{DomainAllow, DomainDeny}
)

// NetworkProxy is the policy of a network proxy.
type NetworkProxy struct {
	Enabled                        bool
	EnableSOCKS5                   bool
	EnableSOCKS5UDP                bool // accepted; UDP is never offered
	AllowUpstreamProxy             bool
	DangerouslyAllowAllUnixSockets bool
	AllowLocalBinding              bool
	Mode                           NetworkMode
	Domains                        map[string]DomainPermission
	ReviewDomains                  []string
	UnixSockets                    map[string]DomainPermission
}

func (p *NetworkProxy) fields(c *codec) {
	boolean(c, "enabled", need, &p.Enabled)
	boolean(c, "enableSocks5", need, &p.EnableSOCKS5)
	boolean(c, "enableSocks5Udp", need, &p.EnableSOCKS5UDP)
	boolean(c, "allowUpstreamProxy", need, &p.AllowUpstreamProxy)
	boolean(c, "dangerouslyAllowAllUnixSockets", need, &p.DangerouslyAllowAllUnixSockets)
	choice(c, "mode", need, &p.Mode, networkModes)
	choiceMap(c, "domains", orNull|omit, &p.Domains, domainPermissions)
	texts(c, "reviewDomains", omit, &p.ReviewDomains)
	choiceMap(c, "unixSockets", orNull|omit, &p.UnixSockets, socketPermissions)
	boolean(c, "allowLocalBinding", need, &p.AllowLocalBinding)
}

// PolicyRequestParams ask the client about a host (docs/spec/network.md §4.5).
type PolicyRequestParams struct {
	ProcessID string
	Request   PolicyRequest
}

func (p *PolicyRequestParams) fields(c *codec) {
	text(c, "processId", need, &p.ProcessID)
	nested(c, "request", need, &p.Request)
}

// PolicyRequest names a host. Protocol is "http", "https_connect" or
// "socks5_tcp".
type PolicyRequest struct {
	Protocol string
	Host     string
	Port     uint16
}

func (p *PolicyRequest) fields(c *codec) {
	text(c, "protocol", need, &p.Protocol)
	text(c, "host", need, &p.Host)
	uint16s(c, "port", need, &p.Port)
}

// PolicyResult answers network/policyRequest.
type PolicyResult struct{ Decision PolicyDecision }

func (p *PolicyResult) fields(c *codec) { nested(c, "decision", need, &p.Decision) }

// PolicyDecision is the client's decision. Type is "allow", "deny" or "ask"; with
// the last two there must be a reason.
type PolicyDecision struct {
	Type   string
	Reason *string
}

func (p *PolicyDecision) fields(c *codec) {
	text(c, "type", need, &p.Type)
	optional(c, "reason", orNull|omit, &p.Reason, textValue)
}

// PolicyDecisionNotification is network/policyDecision: what was decided about
// one request of a process (docs/spec/network.md §4.6).
type PolicyDecisionNotification struct {
	ProcessID      string
	Timestamp      string
	Scope          string
	Decision       string
	Source         string
	Reason         string
	Protocol       string
	Host           string
	Port           uint16
	Method         string // "": none
	Client         string
	PolicyOverride bool
}

func (n *PolicyDecisionNotification) fields(c *codec) {
	text(c, "processId", need, &n.ProcessID)
	text(c, "timestamp", need, &n.Timestamp)
	text(c, "scope", need, &n.Scope)
	text(c, "decision", need, &n.Decision)
	text(c, "source", need, &n.Source)
	text(c, "reason", need, &n.Reason)
	text(c, "protocol", need, &n.Protocol)
	text(c, "host", need, &n.Host)
	uint16s(c, "port", need, &n.Port)
	text(c, "method", orNull|omit, &n.Method)
	text(c, "client", orNull|omit, &n.Client)
	boolean(c, "policyOverride", need, &n.PolicyOverride)
}

// AppendJSON appends the notification.
func (n PolicyDecisionNotification) AppendJSON(b []byte) []byte {
	b = append(b, `{"method":"network/policyDecision","params":`...)
	return append(appendObject(b, &n), '}')
}

// AppendRequest appends network/policyRequest with an id.
func (p PolicyRequestParams) AppendRequest(b []byte, id int64) []byte {
	b = append(b, `{"id":`...)
	b = jsonwire.AppendInt(b, id)
	b = append(b, `,"method":"network/policyRequest","params":`...)
	return append(appendObject(b, &p), '}')
}

// ports is a list of port numbers.
func ports(c *codec, name string, rule rule, to *[]uint16) {
	if !c.visit(name, rule, jsonwire.Array, *to == nil) {
		return
	}
	if c.mode == writing {
		c.b = append(c.b, '[')
		for i, n := range *to {
			if i > 0 {
				c.b = append(c.b, ',')
			}
			c.b = jsonwire.AppendUint(c.b, uint64(n))
		}
		c.b = append(c.b, ']')
		return
	}
	list := []uint16{}
	const most = 1<<16 - 1
	c.err = c.r.Array("a sequence", func() error {
		n, err := c.r.Uint(most, "u16")
		list = append(list, uint16(n))
		return err
	})
	*to = list
}

// choiceMap is an object whose values are one of words each.
func choiceMap[S ~string](c *codec, name string, rule rule, to *map[string]S, words []S) {
	wordMap(c, name, rule, to, func() (S, error) { return readWord(c.r, words) })
}
