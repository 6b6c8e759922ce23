package execproto

import (
	"encoding/json"

	"codex.internal/pkg/wire/jsonwire"
)

// OutputNotification is process/output. Seq counts output, exit and close of
// one process together, from 1.
type OutputNotification struct {
	ProcessID string
	Seq       uint64
	Stream    Stream
	Chunk     []byte
}

func (n *OutputNotification) Fields(c *jsonwire.Codec) {
	c.Text("processId", need, &n.ProcessID)
	c.Uint64("seq", need, &n.Seq)
	jsonwire.Choice(c, "stream", need, &n.Stream, streams)
	base64Field(c, "chunk", need, &n.Chunk)
}

// ExitedNotification is process/exited. ExitCode is the status, 128+n after
// signal n, or -1 when unknown.
type ExitedNotification struct {
	ProcessID     string
	Seq           uint64
	ExitCode      int
	SandboxDenied bool
	// SandboxRefusal is set only if the sandbox could not be set up, so that the
	// command has not run. It is an extension of this server; clients that do not
	// know it ignore it.
	SandboxRefusal *SandboxRefusal
	// Denials are requests of the process that were refused. The server knows each of them for
	// certain and guesses none. They are an extension of this server.
	Denials []Denial
	// Cause is the reason why the process ended, and Resources is its usage. They are an
	// extension of this server.
	Cause     Cause
	Resources *ProcessResources
}

func (n *ExitedNotification) Fields(c *jsonwire.Codec) {
	c.Text("processId", need, &n.ProcessID)
	c.Uint64("seq", need, &n.Seq)
	c.Int("exitCode", need, &n.ExitCode)
	c.Bool("sandboxDenied", orNull, &n.SandboxDenied)
	jsonwire.Optional(c, "sandboxRefusal", orNull|omit, &n.SandboxRefusal, jsonwire.StructValue)
	jsonwire.Structs(c, "denials", orNull|omit, &n.Denials)
	jsonwire.Word(c, "cause", orNull|omit, &n.Cause)
	jsonwire.Optional(c, "resources", orNull|omit, &n.Resources, jsonwire.StructValue)
}

// Denial is a request that was refused to a process, Count times. Kind is
// DenialNetwork. A Denial without a Host is the sum of those beyond the number of
// separate entries.
type Denial struct {
	Kind     string
	Host     string
	Port     uint16
	Protocol string // as in PolicyRequest
	Count    uint64
	Reason   string // as in PolicyDecisionNotification
	// Rule is the rule that refused it, an egress.Rule, and Detail is what is known besides, such as an address of the name. Older
	// servers report neither.
	Rule, Detail string
}

// DenialNetwork is the kind of a host that the process's network proxy refused.
const DenialNetwork = "network"

func (d *Denial) Fields(c *jsonwire.Codec) {
	c.Text("kind", need, &d.Kind)
	c.Text("host", need, &d.Host)
	c.Uint16("port", need, &d.Port)
	c.Text("protocol", need, &d.Protocol)
	c.Uint64("count", need, &d.Count)
	c.Text("reason", need, &d.Reason)
	c.Text("rule", orNull|omit, &d.Rule)
	c.Text("detail", orNull|omit, &d.Detail)
}

// SandboxRefusal is a policy that could not be enforced, and the reason.
type SandboxRefusal struct {
	Policy json.RawMessage // the permission profile, with native paths
	Reason string
}

// Text returns the reason, or "" without a refusal.
func (p *SandboxRefusal) Text() string {
	if p == nil {
		return ""
	}
	return p.Reason
}

func (p *SandboxRefusal) Fields(c *jsonwire.Codec) {
	c.Raw("policy", orNull, &p.Policy)
	c.Text("reason", orNull, &p.Reason)
}

// ClosedNotification is process/closed, the last event of a process.
type ClosedNotification struct {
	ProcessID string
	Seq       uint64
}

func (n *ClosedNotification) Fields(c *jsonwire.Codec) {
	c.Text("processId", need, &n.ProcessID)
	c.Uint64("seq", need, &n.Seq)
}
