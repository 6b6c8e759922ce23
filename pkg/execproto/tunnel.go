package execproto

import "codex.internal/pkg/wire/jsonwire"

// TunnelFailure is the reason why a tunnel or a listener could not be opened, for programs.
type TunnelFailure string

// The failures. A client treats an unknown one as TunnelFailed.
const (
	TunnelRefused     TunnelFailure = "refused"     // nothing listens there
	TunnelUnknownHost TunnelFailure = "unknownHost" // the name does not exist
	TunnelUnreachable TunnelFailure = "unreachable" // the host cannot be reached
	TunnelTimedOut    TunnelFailure = "timedOut"
	TunnelDenied      TunnelFailure = "denied"    // the server does not permit it
	TunnelInUse       TunnelFailure = "inUse"     // the address to listen on is in use
	TunnelNoNetwork   TunnelFailure = "noNetwork" // the process has no network of its own
	TunnelEnded       TunnelFailure = "ended"     // the process has ended
	TunnelFailed      TunnelFailure = "failed"    // anything else
)

// TunnelOpenParams connect to a host and port, or to a Unix socket, from the server's
// machine (docs/spec/wire.md §11.1). TunnelID is odd. Window is how many bytes the
// server may be ahead of what the client has acknowledged.
type TunnelOpenParams struct {
	TunnelID uint64
	Host     string
	Port     uint16
	Path     string // of a Unix socket, in place of Host and Port: a file URI or an absolute path
	// ProcessID, if not empty, names a process of the session into whose sandbox the
	// tunnel leads (docs/spec/wire.md §11.7).
	ProcessID string
	// Session, if not empty, names another session of the client's owner to which
	// ProcessID belongs, as Port.Session does.
	Session string
	Window  uint64
}

func (p *TunnelOpenParams) Fields(c *jsonwire.Codec) {
	c.Uint64("tunnelId", need, &p.TunnelID)
	c.Text("host", orNull|omit, &p.Host)
	c.Uint16("port", orNull|omit, &p.Port)
	c.Text("path", orNull|omit, &p.Path)
	c.Text("processId", orNull|omit, &p.ProcessID)
	c.Text("session", orNull|omit, &p.Session)
	c.Uint64("window", need, &p.Window)
}

// TunnelOpenResult answers tunnel/open. Window is how many unread bytes the server
// accepts. If Failure is set there is no tunnel, and Reason is for users.
type TunnelOpenResult struct {
	Window  uint64
	Failure TunnelFailure
	Reason  string
}

func (r *TunnelOpenResult) Fields(c *jsonwire.Codec) {
	c.Uint64("window", need, &r.Window)
	jsonwire.Word(c, "failure", orNull|omit, &r.Failure)
	c.Text("reason", orNull|omit, &r.Reason)
}

// AppendJSON appends r.
func (r TunnelOpenResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// TunnelData is tunnel/data, sent by both ends: bytes of a tunnel from Offset on. End
// means that they are the last.
type TunnelData struct {
	TunnelID uint64
	Offset   uint64
	Data     []byte
	End      bool
}

func (n *TunnelData) Fields(c *jsonwire.Codec) {
	c.Uint64("tunnelId", need, &n.TunnelID)
	c.Uint64("offset", need, &n.Offset)
	base64Field(c, "data", need, &n.Data)
	c.Bool("end", omit, &n.End)
}

// TunnelAck is tunnel/ack, sent by both ends: all bytes before Position were consumed.
// The end of a direction counts as one more byte.
type TunnelAck struct {
	TunnelID uint64
	Position uint64
}

func (n *TunnelAck) Fields(c *jsonwire.Codec) {
	c.Uint64("tunnelId", need, &n.TunnelID)
	c.Uint64("position", need, &n.Position)
}

// TunnelClose is tunnel/close, sent by both ends. Reason is empty if the tunnel ends
// normally.
type TunnelClose struct {
	TunnelID uint64
	Reason   string
}

func (n *TunnelClose) Fields(c *jsonwire.Codec) {
	c.Uint64("tunnelId", need, &n.TunnelID)
	c.Text("reason", orNull|omit, &n.Reason)
}

// TunnelListenParams make the server listen on a TCP port (docs/spec/wire.md §11.4). An empty
// Host is 127.0.0.1, and port 0 any free one. Window applies to each tunnel from this port.
type TunnelListenParams struct {
	ListenerID uint64
	Host       string
	Port       uint16
	Window     uint64
}

func (p *TunnelListenParams) Fields(c *jsonwire.Codec) {
	c.Uint64("listenerId", need, &p.ListenerID)
	c.Text("host", orNull|omit, &p.Host)
	c.Uint16("port", need, &p.Port)
	c.Uint64("window", need, &p.Window)
}

// TunnelListenResult answers tunnel/listen with the address on which the server listens, or the
// reason why it does not listen.
type TunnelListenResult struct {
	Host    string
	Port    uint16
	Failure TunnelFailure
	Reason  string
}

func (r *TunnelListenResult) Fields(c *jsonwire.Codec) {
	c.Text("host", orNull|omit, &r.Host)
	c.Uint16("port", orNull|omit, &r.Port)
	jsonwire.Word(c, "failure", orNull|omit, &r.Failure)
	c.Text("reason", orNull|omit, &r.Reason)
}

// AppendJSON appends r.
func (r TunnelListenResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// TunnelListener names a listener: the params of tunnel/unlisten.
type TunnelListener struct {
	ListenerID uint64
}

func (p *TunnelListener) Fields(c *jsonwire.Codec) { c.Uint64("listenerId", need, &p.ListenerID) }

// TunnelAccepted is tunnel/accepted: a connection to a listener has become the tunnel
// TunnelID, an even number. Window is how many bytes the client may be ahead. Peer is the
// address that has connected.
type TunnelAccepted struct {
	ListenerID uint64
	TunnelID   uint64
	Window     uint64
	Peer       string
}

func (n *TunnelAccepted) Fields(c *jsonwire.Codec) {
	c.Uint64("listenerId", need, &n.ListenerID)
	c.Uint64("tunnelId", need, &n.TunnelID)
	c.Uint64("window", need, &n.Window)
	c.Text("peer", orNull|omit, &n.Peer)
}

// TunnelPosition is the position up to which the bytes of a tunnel's other end have
// arrived; its end counts as one more byte.
type TunnelPosition struct {
	TunnelID uint64
	Received uint64
}

func (p *TunnelPosition) Fields(c *jsonwire.Codec) {
	c.Uint64("tunnelId", need, &p.TunnelID)
	c.Uint64("received", need, &p.Received)
}

// TunnelResume has the params of tunnel/resume: the tunnels and listeners that continue. All
// others of the session end. The result has the same form, and lists those that the server has.
type TunnelResume struct {
	Tunnels   []TunnelPosition
	Listeners []TunnelListener
}

func (p *TunnelResume) Fields(c *jsonwire.Codec) {
	jsonwire.Structs(c, "tunnels", need, &p.Tunnels)
	jsonwire.Structs(c, "listeners", need, &p.Listeners)
}

// AppendJSON appends r.
func (p TunnelResume) AppendJSON(b []byte) []byte { return appendObject(b, &p) }
