package execproto

import "encoding/json"

// OutputNotification is process/output. Seq counts output, exit and close of
// one process together, from 1.
type OutputNotification struct {
	ProcessID string
	Seq       uint64
	Stream    Stream
	Chunk     []byte
}

func (n *OutputNotification) fields(c *codec) {
	text(c, "processId", need, &n.ProcessID)
	uint64s(c, "seq", need, &n.Seq)
	choice(c, "stream", need, &n.Stream, streams)
	base64s(c, "chunk", need, &n.Chunk)
}

// ExitedNotification is process/exited. ExitCode is the status, 128+n after
// signal n, or -1 when unknown.
type ExitedNotification struct {
	ProcessID     string
	Seq           uint64
	ExitCode      int
	SandboxDenied bool
	// SandboxRefusal is set only if the sandbox could not be made, so that the
	// command has not run. It is an extension of this server; clients that do not
	// know it ignore it.
	SandboxRefusal *SandboxRefusal
	// Denials are what the process was refused as far as the server knows it, and
	// does not guess it. They are an extension of this server.
	Denials []Denial
	// Cause says why the process has ended, and Resources what it has used. They are
	// an extension of this server.
	Cause     Cause
	Resources *ProcessResources
}

func (n *ExitedNotification) fields(c *codec) {
	text(c, "processId", need, &n.ProcessID)
	uint64s(c, "seq", need, &n.Seq)
	integer(c, "exitCode", need, &n.ExitCode)
	boolean(c, "sandboxDenied", orNull, &n.SandboxDenied)
	optional(c, "sandboxRefusal", orNull|omit, &n.SandboxRefusal, objectValue)
	objects(c, "denials", orNull|omit, &n.Denials)
	text(c, "cause", orNull|omit, &n.Cause)
	optional(c, "resources", orNull|omit, &n.Resources, objectValue)
}

// Denial is what a process was refused, Count times. Kind is DenialNetwork.
// Denials that are too many to be told apart have no Host.
type Denial struct {
	Kind     string
	Host     string
	Port     uint16
	Protocol string // as in PolicyRequest
	Count    uint64
	Reason   string // as in PolicyDecisionNotification
}

// DenialNetwork is the kind of a host that the process's network proxy refused.
const DenialNetwork = "network"

func (d *Denial) fields(c *codec) {
	text(c, "kind", need, &d.Kind)
	text(c, "host", need, &d.Host)
	uint16s(c, "port", need, &d.Port)
	text(c, "protocol", need, &d.Protocol)
	uint64s(c, "count", need, &d.Count)
	text(c, "reason", need, &d.Reason)
}

// SandboxRefusal is a policy that could not be enforced, and the reason.
type SandboxRefusal struct {
	Policy json.RawMessage // the permission profile, with native paths
	Reason string
}

func (p *SandboxRefusal) fields(c *codec) {
	raw(c, "policy", orNull, &p.Policy)
	text(c, "reason", orNull, &p.Reason)
}

// ClosedNotification is process/closed, the last event of a process.
type ClosedNotification struct {
	ProcessID string
	Seq       uint64
}

func (n *ClosedNotification) fields(c *codec) {
	text(c, "processId", need, &n.ProcessID)
	uint64s(c, "seq", need, &n.Seq)
}
