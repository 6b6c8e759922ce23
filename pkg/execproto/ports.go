package execproto

import "codex.internal/pkg/wire/jsonwire"

// WatchPortsParams ask for notifications of the TCP ports on which processes of the session listen
// (docs/spec/wire.md §11.8). The connection names the watch by WatchID. With AllSessions it
// is about every session of the client's owner.
type WatchPortsParams struct {
	WatchID     uint64
	AllSessions bool
}

func (p *WatchPortsParams) Fields(c *jsonwire.Codec) {
	c.Uint64("watchId", need, &p.WatchID)
	c.Bool("allSessions", orNull|omit, &p.AllSessions)
}

// Ports is tunnel/ports: all ports at a time. Seq counts the notifications of a watch from
// 1. Truncated says that there may be more.
type Ports struct {
	WatchID   uint64
	Seq       uint64
	Ports     []Port
	Truncated bool
}

func (n *Ports) Fields(c *jsonwire.Codec) {
	c.Uint64("watchId", need, &n.WatchID)
	c.Uint64("seq", need, &n.Seq)
	jsonwire.Structs(c, "ports", need, &n.Ports)
	c.Bool("truncated", orNull|omit, &n.Truncated)
}

// Port is a TCP port on which a process listens. Session is empty in the client's own
// session. Host is an address, the unspecified one if the process listens on all. Inside
// means that the port is in the network of the sandbox of the process ProcessID: a
// tunnel to it needs ProcessID, and Session if it is not empty. Pid is ProcessID's
// process or a descendant of it. Command is the command that Pid runs, an untrusted
// text.
type Port struct {
	Session   string
	ProcessID string
	PID       uint64
	Command   string
	Host      string
	Port      uint16
	Inside    bool
}

func (p *Port) Fields(c *jsonwire.Codec) {
	c.Text("session", orNull|omit, &p.Session)
	c.Text("processId", need, &p.ProcessID)
	c.Uint64("pid", need, &p.PID)
	c.Text("command", need, &p.Command)
	c.Text("host", need, &p.Host)
	c.Uint16("port", need, &p.Port)
	c.Bool("inside", orNull|omit, &p.Inside)
}
