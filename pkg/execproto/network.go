package execproto

import (
	"math"

	"codex.internal/pkg/wire/jsonwire"
)

// ManagedNetwork describes a proxy that already runs on the server's machine
// and that StartParams.Env names (docs/spec/network.md §3.3).
type ManagedNetwork struct {
	LoopbackPorts                  []uint16
	AllowLocalBinding              bool
	AllowUnixSockets               []string
	DangerouslyAllowAllUnixSockets bool
}

func (p *ManagedNetwork) Fields(c *jsonwire.Codec) {
	jsonwire.List(c, "loopbackPorts", omit, &p.LoopbackPorts, math.MaxInt, jsonwire.Uint16Value)
	c.Bool("allowLocalBinding", 0, &p.AllowLocalBinding)
	c.Texts("allowUnixSockets", omit, &p.AllowUnixSockets)
	c.Bool("dangerouslyAllowAllUnixSockets", omit, &p.DangerouslyAllowAllUnixSockets)
}

// NetworkProxyLaunch asks for a network proxy of the process
// (docs/spec/network.md §4). AuditMetadata, EnvironmentID and ExecutionID are
// accepted for compatibility with Codex CLI and ignored.
type NetworkProxyLaunch struct {
	Proxy         NetworkProxy
	AuditMetadata AuditMetadata
	EnvironmentID string
	ExecutionID   string
	// PolicyDecisionTimeoutMS is the longest time that the client takes to
	// answer a policy request; nil: it gets no policy requests.
	PolicyDecisionTimeoutMS *uint64
}

func (p *NetworkProxyLaunch) Fields(c *jsonwire.Codec) {
	c.Struct("proxy", need, &p.Proxy)
	c.Struct("auditMetadata", 0, &p.AuditMetadata)
	c.Text("environmentId", orNull|omit, &p.EnvironmentID)
	c.Text("executionId", orNull|omit, &p.ExecutionID)
	jsonwire.Optional(c, "policyDecisionTimeoutMs", orNull|omit, &p.PolicyDecisionTimeoutMS, jsonwire.Uint64Value)
}

// AuditMetadata identifies the user on whose behalf a process has a network proxy.
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

func (p *AuditMetadata) Fields(c *jsonwire.Codec) {
	c.Text("conversationId", orNull|omit, &p.ConversationID)
	c.Text("appVersion", orNull|omit, &p.AppVersion)
	c.Text("userAccountId", orNull|omit, &p.UserAccountID)
	c.Text("authMode", orNull|omit, &p.AuthMode)
	c.Text("originator", orNull|omit, &p.Originator)
	c.Text("userEmail", orNull|omit, &p.UserEmail)
	c.Text("terminalType", orNull|omit, &p.TerminalType)
	c.Text("model", orNull|omit, &p.Model)
	c.Text("slug", orNull|omit, &p.Slug)
}

// NetworkMode says which requests a network proxy permits.
type NetworkMode string

// The modes. NetworkLimited permits only requests that read, and only over plain HTTP.
const (
	NetworkLimited NetworkMode = "limited"
	NetworkFull    NetworkMode = "full"
)

var networkModes = []NetworkMode{NetworkLimited, NetworkFull}

// DomainPermission is what a network proxy does with the hosts of a pattern.
type DomainPermission string

// The permissions. DomainNone has the same effect as an absent pattern.
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
	// TransparentTCP asks that programs reach the hosts without knowing of the proxy.
	TransparentTCP bool
}

func (p *NetworkProxy) Fields(c *jsonwire.Codec) {
	c.Bool("enabled", need, &p.Enabled)
	c.Bool("enableSocks5", need, &p.EnableSOCKS5)
	c.Bool("enableSocks5Udp", need, &p.EnableSOCKS5UDP)
	c.Bool("allowUpstreamProxy", need, &p.AllowUpstreamProxy)
	c.Bool("dangerouslyAllowAllUnixSockets", need, &p.DangerouslyAllowAllUnixSockets)
	jsonwire.Choice(c, "mode", need, &p.Mode, networkModes)
	jsonwire.ChoiceMap(c, "domains", orNull|omit, &p.Domains, domainPermissions)
	c.Texts("reviewDomains", omit, &p.ReviewDomains)
	jsonwire.ChoiceMap(c, "unixSockets", orNull|omit, &p.UnixSockets, socketPermissions)
	c.Bool("allowLocalBinding", need, &p.AllowLocalBinding)
	c.Bool("transparentTcp", omit, &p.TransparentTCP)
}

// PolicyRequestParams ask the client about a host (docs/spec/network.md §4.5).
type PolicyRequestParams struct {
	ProcessID string
	Request   PolicyRequest
}

func (p *PolicyRequestParams) Fields(c *jsonwire.Codec) {
	c.Text("processId", need, &p.ProcessID)
	c.Struct("request", need, &p.Request)
}

// PolicyRequest names a host. Protocol is "http", "https_connect" or
// "socks5_tcp".
type PolicyRequest struct {
	Protocol string
	Host     string
	Port     uint16
}

func (p *PolicyRequest) Fields(c *jsonwire.Codec) {
	c.Text("protocol", need, &p.Protocol)
	c.Text("host", need, &p.Host)
	c.Uint16("port", need, &p.Port)
}

// PolicyResult answers network/policyRequest.
type PolicyResult struct{ Decision PolicyDecision }

func (p *PolicyResult) Fields(c *jsonwire.Codec) { c.Struct("decision", need, &p.Decision) }

// PolicyDecision is the client's decision. Type is "allow", "deny" or "ask"; with
// the last two there must be a reason.
type PolicyDecision struct {
	Type   string
	Reason *string
}

func (p *PolicyDecision) Fields(c *jsonwire.Codec) {
	c.Text("type", need, &p.Type)
	jsonwire.Optional(c, "reason", orNull|omit, &p.Reason, jsonwire.TextValue)
}

// PolicyDecisionNotification is network/policyDecision: the decision about one
// request of a process (docs/spec/network.md §4.6).
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
	Method         string // "": no method
	Client         string
	PolicyOverride bool
}

func (n *PolicyDecisionNotification) Fields(c *jsonwire.Codec) {
	c.Text("processId", need, &n.ProcessID)
	c.Text("timestamp", need, &n.Timestamp)
	c.Text("scope", need, &n.Scope)
	c.Text("decision", need, &n.Decision)
	c.Text("source", need, &n.Source)
	c.Text("reason", need, &n.Reason)
	c.Text("protocol", need, &n.Protocol)
	c.Text("host", need, &n.Host)
	c.Uint16("port", need, &n.Port)
	c.Text("method", orNull|omit, &n.Method)
	c.Text("client", orNull|omit, &n.Client)
	c.Bool("policyOverride", need, &n.PolicyOverride)
}

// AppendRequest appends network/policyRequest with an id.
func (p PolicyRequestParams) AppendRequest(b []byte, id int64) []byte {
	b = append(b, `{"id":`...)
	b = jsonwire.AppendInt(b, id)
	b = append(b, `,"method":"network/policyRequest","params":`...)
	return append(appendObject(b, &p), '}')
}
