package execproto

import (
	"encoding/json"
	"errors"
	"time"

	"codex.internal/pkg/wire/jsonwire"
)

// Stream names the source of a process's output.
type Stream string

// The streams of a process: two pipes, or one terminal.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
	PTY    Stream = "pty"
)

var streams = []Stream{Stdout, Stderr, PTY}

// InitializeParams open a connection (docs/spec/wire.md §3.1).
type InitializeParams struct {
	ClientName      string
	ResumeSessionID *string
	// TakeOver resumes the session even if it is attached to another connection
	// (extension initialize/takeOver). The server closes that one; over a
	// websocket with close code 1008 and the reason `session was resumed on
	// another connection`. It handles no message of that connection after the
	// answer to this request. TakeOver is ignored without ResumeSessionID.
	TakeOver bool
}

func (p *InitializeParams) Fields(c *jsonwire.Codec) {
	c.Text("clientName", need, &p.ClientName)
	jsonwire.Optional(c, "resumeSessionId", orNull, &p.ResumeSessionID, jsonwire.TextValue)
	c.Bool("takeOver", orNull|omit, &p.TakeOver)
}

// InitializeResult answers initialize. Extensions lists the parts of docs/spec/wire.md §8.2
// that the server supports: requests, notifications, and ExtensionTakeOver.
type InitializeResult struct {
	SessionID       string
	Extensions      []string
	EnvironmentInfo *EnvironmentInfo
}

func (r *InitializeResult) Fields(c *jsonwire.Codec) {
	c.Text("sessionId", orNull, &r.SessionID)
	c.Texts("extensions", orNull|omit, &r.Extensions)
	jsonwire.Optional(c, "environmentInfo", orNull|omit, &r.EnvironmentInfo, jsonwire.StructValue)
}

// AppendJSON appends r.
func (r InitializeResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// TerminalSize is a terminal's size in character cells.
type TerminalSize struct {
	Rows uint16
	Cols uint16
}

func (p *TerminalSize) Fields(c *jsonwire.Codec) {
	c.Uint16("rows", need, &p.Rows)
	c.Uint16("cols", need, &p.Cols)
}

// EnvPolicy selects the variables that a process inherits from the server's environment, before
// StartParams.Env is added (docs/spec/wire.md §4.2).
type EnvPolicy struct {
	// Inherit is "all", "core" or "none".
	Inherit               string
	IgnoreDefaultExcludes bool
	Exclude               []string
	Set                   map[string]string
	IncludeOnly           []string
}

var inheritable = []string{"all", "core", "none"}

func (p *EnvPolicy) Fields(c *jsonwire.Codec) {
	jsonwire.Choice(c, "inherit", need, &p.Inherit, inheritable)
	c.Bool("ignoreDefaultExcludes", need, &p.IgnoreDefaultExcludes)
	c.Texts("exclude", need, &p.Exclude)
	c.TextMap("set", need, &p.Set)
	c.Texts("includeOnly", need, &p.IncludeOnly)
}

// StartMetadata identifies on whose behalf a process runs; it is logged.
type StartMetadata struct {
	ThreadID   string
	ToolCallID string
}

func (p *StartMetadata) Fields(c *jsonwire.Codec) {
	c.Text("threadId", orNull|omit, &p.ThreadID)
	c.Text("toolCallId", orNull|omit, &p.ToolCallID)
}

// ShellSnapshot identifies the commands that share the state set by start-up
// files (docs/spec/wire.md §4.9).
type ShellSnapshot struct {
	ScopeID string
	Shell   SnapshotShell
}

func (p *ShellSnapshot) Fields(c *jsonwire.Codec) {
	c.Text("scopeId", need, &p.ScopeID)
	c.Struct("shell", need, &p.Shell)
}

// SnapshotShell is the shell of a ShellSnapshot: its name and native path.
type SnapshotShell struct {
	Name string
	Path string
}

func (p *SnapshotShell) Fields(c *jsonwire.Codec) {
	c.Text("name", need, &p.Name)
	c.Text("path", need, &p.Path)
}

// StartParams start a process (docs/spec/wire.md §4.1). ProcessID, Argv, Cwd,
// Env and TTY are required.
type StartParams struct {
	ProcessID string
	Argv      []string
	Cwd       string
	Env       map[string]string
	TTY       bool
	// Arg0 is the name that the process sees as its own; nil: argv[0].
	Arg0      *string
	PipeStdin bool
	EnvPolicy *EnvPolicy
	// Sandbox is the undecoded sandbox context; nil when absent or null.
	Sandbox               json.RawMessage
	EnforceManagedNetwork bool
	// ManagedNetwork is ignored if NetworkProxy is set.
	ManagedNetwork *ManagedNetwork
	// NetworkProxy requests a network proxy for the process; nil: none.
	NetworkProxy *NetworkProxyLaunch
	Metadata     *StartMetadata
	// ShellSnapshot asks that the start-up files of a login shell run once for
	// several commands; nil: they run each time.
	ShellSnapshot *ShellSnapshot
	// Size is the terminal's first size; nil: 24 rows, 80 columns.
	Size *TerminalSize
	// OutputWindow is how many bytes of output may be unacknowledged; 0: any
	// number. While events with that much output have not been acknowledged
	// with process/ack, the server reads no more, and output waits in the
	// process's pipe (extension process/ack). The server's limits are 64 KiB
	// and 512 KiB. The exit is sent without waiting for acknowledgements, so
	// output that was held back comes after it. The close comes when all output
	// has been read.
	OutputWindow uint64
	// Detach makes the process belong to the client's user or token instead of
	// the session, so that it outlives the session and the server; nil: it
	// belongs to the session.
	Detach *Detach
	// Retain is for a process with Detach; nil: the server's defaults.
	Retain *Retain
	// Limits bound the resources of the process and its descendants (extension
	// process/limits); nil: only the server's own limits.
	Limits *ProcessLimits
}

var errNoArgv = errors.New("argv must not be empty")

func (p *StartParams) Fields(c *jsonwire.Codec) {
	c.Text("processId", need, &p.ProcessID)
	c.Texts("argv", need, &p.Argv)
	c.Text("cwd", need, &p.Cwd)
	c.TextMap("env", need, &p.Env)
	c.Bool("tty", need, &p.TTY)
	jsonwire.Optional(c, "arg0", orNull, &p.Arg0, jsonwire.TextValue)
	c.Bool("pipeStdin", 0, &p.PipeStdin)
	jsonwire.Optional(c, "envPolicy", orNull, &p.EnvPolicy, jsonwire.StructValue)
	c.Raw("sandbox", orNull, &p.Sandbox)
	c.Bool("enforceManagedNetwork", 0, &p.EnforceManagedNetwork)
	jsonwire.Optional(c, "managedNetwork", orNull|omit, &p.ManagedNetwork, jsonwire.StructValue)
	jsonwire.Optional(c, "networkProxy", orNull|omit, &p.NetworkProxy, jsonwire.BareStructValue)
	jsonwire.Optional(c, "metadata", orNull|omit, &p.Metadata, jsonwire.StructValue)
	jsonwire.Optional(c, "shellSnapshot", orNull|omit, &p.ShellSnapshot, jsonwire.StructValue)
	jsonwire.Optional(c, "size", orNull|omit, &p.Size, jsonwire.StructValue)
	c.Uint64("outputWindow", orNull|omit, &p.OutputWindow)
	jsonwire.Optional(c, "detach", orNull|omit, &p.Detach, jsonwire.StructValue)
	jsonwire.Optional(c, "retain", orNull|omit, &p.Retain, jsonwire.StructValue)
	jsonwire.Optional(c, "limits", orNull|omit, &p.Limits, jsonwire.StructValue)
	c.Refuse(len(p.Argv) == 0, errNoArgv)
}

// StartResult answers process/start. SandboxType is "none" or
// "linuxSeccomp".
type StartResult struct {
	ProcessID   string
	SandboxType string
	// Limits reports how each limit of the process is enforced; it is set only if
	// StartParams.Limits was given.
	Limits []HeldLimit
}

func (r *StartResult) Fields(c *jsonwire.Codec) {
	c.Text("processId", orNull, &r.ProcessID)
	c.Text("sandboxType", orNull|omit, &r.SandboxType)
	jsonwire.Structs(c, "limits", orNull|omit, &r.Limits)
}

// AppendJSON appends r.
func (r StartResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// ReadParams ask for retained output with numbers above AfterSeq: at most MaxBytes of it, but
// at least one chunk. If there is nothing to report, the server waits up to WaitMS
// milliseconds.
type ReadParams struct {
	ProcessID string
	AfterSeq  *uint64
	MaxBytes  *uint64
	WaitMS    *uint64
	// Consume, for a detached process, means that no reader needs the events up to
	// AfterSeq any more.
	Consume bool
	// Details asks for the Cause and the Resources of the result (extension
	// process/limits).
	Details bool
	// Times asks for OutputChunk.ElapsedSeconds of a detached process (ExtensionOutputTimes).
	Times bool
}

// MaxWait bounds waitMs and timeouts of clients, so that they fit a duration.
const MaxWait = 24 * time.Hour

// After returns the number above which events are read.
func (p *ReadParams) After() uint64 {
	if p.AfterSeq == nil {
		return 0
	}
	return *p.AfterSeq
}

// Wait returns how long to wait if there is no event yet.
func (p *ReadParams) Wait() time.Duration {
	if p.WaitMS == nil {
		return 0
	}
	return time.Duration(min(*p.WaitMS, uint64(MaxWait/time.Millisecond))) * time.Millisecond
}

func (p *ReadParams) Fields(c *jsonwire.Codec) {
	c.Text("processId", need, &p.ProcessID)
	jsonwire.Optional(c, "afterSeq", orNull, &p.AfterSeq, jsonwire.Uint64Value)
	jsonwire.Optional(c, "maxBytes", orNull, &p.MaxBytes, jsonwire.Uint64Value)
	jsonwire.Optional(c, "waitMs", orNull, &p.WaitMS, jsonwire.Uint64Value)
	c.Bool("consume", orNull|omit, &p.Consume)
	c.Bool("details", orNull|omit, &p.Details)
	c.Bool("times", orNull|omit, &p.Times)
}

// OutputChunk is one numbered piece of output, at most MaxOutputChunk bytes
// from this server.
type OutputChunk struct {
	Seq    uint64
	Stream Stream
	Chunk  []byte
	// ElapsedSeconds is the time between the start of the process and the output; 0 unless ReadParams.Times is set.
	ElapsedSeconds uint64
}

func (p *OutputChunk) Fields(c *jsonwire.Codec) {
	c.Uint64("seq", orNull, &p.Seq)
	jsonwire.Word(c, "stream", orNull, &p.Stream)
	base64Field(c, "chunk", 0, &p.Chunk)
	c.Uint64("elapsedSeconds", orNull|omit, &p.ElapsedSeconds)
}

// ReadResult answers process/read. ExitCode is nil until the process ended, and so are
// Cause and Resources, which need ReadParams.Details.
type ReadResult struct {
	Chunks        []OutputChunk
	NextSeq       uint64
	Exited        bool
	ExitCode      *int
	Closed        bool
	Failure       *string
	SandboxDenied bool
	// Dropped, for a detached process, are the events before the chunks that are no
	// longer retained; nil: none.
	Dropped *EventRange
	// Waiting is the reason why a detached process waits for space for its output; "": it
	// does not wait.
	Waiting   string
	Cause     Cause
	Resources *ProcessResources
}

func (r *ReadResult) Fields(c *jsonwire.Codec) {
	jsonwire.Structs(c, "chunks", orNull, &r.Chunks)
	c.Uint64("nextSeq", orNull, &r.NextSeq)
	c.Bool("exited", orNull, &r.Exited)
	jsonwire.Optional(c, "exitCode", orNull, &r.ExitCode, jsonwire.IntValue)
	c.Bool("closed", orNull, &r.Closed)
	jsonwire.Optional(c, "failure", orNull, &r.Failure, jsonwire.TextValue)
	c.Bool("sandboxDenied", orNull, &r.SandboxDenied)
	jsonwire.Optional(c, "dropped", orNull|omit, &r.Dropped, jsonwire.StructValue)
	c.Text("waiting", orNull|omit, &r.Waiting)
	jsonwire.Word(c, "cause", orNull|omit, &r.Cause)
	jsonwire.Optional(c, "resources", orNull|omit, &r.Resources, jsonwire.StructValue)
}

// AppendJSON appends r.
func (r ReadResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// WriteStatus is the outcome of a write with a writeId.
type WriteStatus string

// The outcomes of process/write.
const (
	WriteAccepted       WriteStatus = "accepted"
	WriteUnknownProcess WriteStatus = "unknownProcess"
	WriteStdinClosed    WriteStatus = "stdinClosed"
	WriteStarting       WriteStatus = "starting"
)

// WriteParams write Chunk to a process's stdin. A write with the WriteID of
// an accepted one is accepted again and not repeated; nil selects the older
// contract, in which a write that cannot be queued is an error.
type WriteParams struct {
	ProcessID string
	Chunk     []byte
	WriteID   *string
}

var errNoWriteID = errors.New("writeId must not be empty")

func (p *WriteParams) Fields(c *jsonwire.Codec) {
	c.Text("processId", need, &p.ProcessID)
	base64Field(c, "chunk", need, &p.Chunk)
	jsonwire.Optional(c, "writeId", orNull|omit, &p.WriteID, jsonwire.TextValue)
	c.Refuse(p.WriteID != nil && *p.WriteID == "", errNoWriteID)
}

// WriteResult answers process/write.
type WriteResult struct {
	Status WriteStatus
}

func (r *WriteResult) Fields(c *jsonwire.Codec) {
	jsonwire.Word(c, "status", orNull, &r.Status)
}

// AppendJSON appends r.
func (r WriteResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// Signal is a signal by name.
type Signal string

// These are the signals of process/signal; Codex CLI knows only interrupt.
const (
	SignalInterrupt Signal = "interrupt"
	SignalTerminate Signal = "terminate"
	SignalKill      Signal = "kill"
	SignalHangup    Signal = "hangup"
	SignalQuit      Signal = "quit"
	SignalUSR1      Signal = "usr1"
	SignalUSR2      Signal = "usr2"
)

var signals = []Signal{SignalInterrupt, SignalTerminate, SignalKill, SignalHangup, SignalQuit, SignalUSR1, SignalUSR2}

// SignalParams send a signal to a process's group.
type SignalParams struct {
	ProcessID string
	Signal    Signal
	Session   string // as in TerminateParams
}

func (p *SignalParams) Fields(c *jsonwire.Codec) {
	c.Text("processId", need, &p.ProcessID)
	jsonwire.Choice(c, "signal", need, &p.Signal, signals)
	c.Text("session", orNull|omit, &p.Session)
}

// TerminateParams are the params of process/terminate. With a Session, as process/list names it, the process is one of
// that session, which must be of the same principal unless the client has the role admin. Servers that announce
// ExtensionEndOthers support it.
type TerminateParams struct {
	ProcessID string
	Session   string
}

func (p *TerminateParams) Fields(c *jsonwire.Codec) {
	c.Text("processId", need, &p.ProcessID)
	c.Text("session", orNull|omit, &p.Session)
}

// ProcessParams name one process.
type ProcessParams struct {
	ProcessID string
}

func (p *ProcessParams) Fields(c *jsonwire.Codec) {
	c.Text("processId", need, &p.ProcessID)
}

// ProcessAck is process/ack: the client has consumed a process's events up to and
// including Seq (see StartParams.OutputWindow). The highest Seq counts. A Seq
// beyond the newest event also acknowledges future events, so after 2^53-1 no
// output is held back. An unknown process, or one without a window, is not an
// error.
type ProcessAck struct {
	ProcessID string
	Seq       uint64
}

func (p *ProcessAck) Fields(c *jsonwire.Codec) {
	c.Text("processId", need, &p.ProcessID)
	c.Uint64("seq", need, &p.Seq)
}

// TerminateResult answers process/terminate: whether the process was still
// running.
type TerminateResult struct {
	Running bool
}

func (r *TerminateResult) Fields(c *jsonwire.Codec) {
	c.Bool("running", orNull, &r.Running)
}

// AppendJSON appends r.
func (r TerminateResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// ResizeParams set the size of a process's terminal.
type ResizeParams struct {
	ProcessID string
	Rows      uint16
	Cols      uint16
}

func (p *ResizeParams) Fields(c *jsonwire.Codec) {
	c.Text("processId", need, &p.ProcessID)
	c.Uint16("rows", need, &p.Rows)
	c.Uint16("cols", need, &p.Cols)
}

// ProcessInfo describes one process of the session in ListResult.
type ProcessInfo struct {
	ProcessID   string
	Argv        []string
	StartedAtMS int64
	Exited      bool
	ExitCode    *int
	Closed      bool
	TTY         bool
	// Cause and Resources are as in ExitedNotification, once it has ended.
	Cause     Cause
	Resources *ProcessResources
	// Usage is set while the process runs, if ListParams.Usage asks for it and the
	// server knows.
	Usage *ProcessUsage
	// Session names the session, if ListParams.Scope may include several: a digest of its
	// id. Client is the name of its client, and Principal its user, certificate or token.
	Session, Client, Principal string
}

func (p *ProcessInfo) Fields(c *jsonwire.Codec) {
	c.Text("processId", orNull, &p.ProcessID)
	c.Texts("argv", orNull, &p.Argv)
	c.Int64("startedAtMs", orNull, &p.StartedAtMS)
	c.Bool("exited", orNull, &p.Exited)
	jsonwire.Optional(c, "exitCode", orNull, &p.ExitCode, jsonwire.IntValue)
	c.Bool("closed", orNull, &p.Closed)
	c.Bool("tty", orNull, &p.TTY)
	jsonwire.Word(c, "cause", orNull|omit, &p.Cause)
	jsonwire.Optional(c, "resources", orNull|omit, &p.Resources, jsonwire.StructValue)
	jsonwire.Optional(c, "usage", orNull|omit, &p.Usage, jsonwire.StructValue)
	c.Text("session", orNull|omit, &p.Session)
	c.Text("client", orNull|omit, &p.Client)
	c.Text("principal", orNull|omit, &p.Principal)
}

// ListResult answers process/list.
type ListResult struct {
	Processes []ProcessInfo
	// Omitted is how many older processes of other sessions are left out.
	Omitted uint64
}

func (r *ListResult) Fields(c *jsonwire.Codec) {
	jsonwire.Structs(c, "processes", orNull, &r.Processes)
	c.Uint64("omitted", orNull|omit, &r.Omitted)
}

// AppendJSON appends r.
func (r ListResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }
