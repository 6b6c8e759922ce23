package execproto

import (
	"encoding/json"
	"errors"
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

func (p *InitializeParams) fields(c *codec) {
	text(c, "clientName", need, &p.ClientName)
	optional(c, "resumeSessionId", orNull, &p.ResumeSessionID, textValue)
	boolean(c, "takeOver", orNull|omit, &p.TakeOver)
}

// InitializeResult answers initialize. Extensions name what the server speaks
// of docs/spec/wire.md §8.2: requests, notifications, and ExtensionTakeOver.
type InitializeResult struct {
	SessionID       string
	Extensions      []string
	EnvironmentInfo *EnvironmentInfo
}

func (r *InitializeResult) fields(c *codec) {
	text(c, "sessionId", orNull, &r.SessionID)
	texts(c, "extensions", orNull|omit, &r.Extensions)
	optional(c, "environmentInfo", orNull|omit, &r.EnvironmentInfo, objectValue)
}

// AppendJSON appends r.
func (r InitializeResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// TerminalSize is a terminal's size in character cells.
type TerminalSize struct {
	Rows uint16
	Cols uint16
}

func (p *TerminalSize) fields(c *codec) {
	uint16s(c, "rows", need, &p.Rows)
	uint16s(c, "cols", need, &p.Cols)
}

// EnvPolicy says what a process inherits of the server's environment before
// StartParams.Env is laid over it (docs/spec/wire.md §4.2).
type EnvPolicy struct {
	// Inherit is "all", "core" or "none".
	Inherit               string
	IgnoreDefaultExcludes bool
	Exclude               []string
	Set                   map[string]string
	IncludeOnly           []string
}

var inheritable = []string{"all", "core", "none"}

func (p *EnvPolicy) fields(c *codec) {
	choice(c, "inherit", need, &p.Inherit, inheritable)
	boolean(c, "ignoreDefaultExcludes", need, &p.IgnoreDefaultExcludes)
	texts(c, "exclude", need, &p.Exclude)
	textMap(c, "set", need, &p.Set)
	texts(c, "includeOnly", need, &p.IncludeOnly)
}

// StartMetadata says on whose behalf a process runs; it goes to the log.
type StartMetadata struct {
	ThreadID   string
	ToolCallID string
}

func (p *StartMetadata) fields(c *codec) {
	text(c, "threadId", orNull|omit, &p.ThreadID)
	text(c, "toolCallId", orNull|omit, &p.ToolCallID)
}

// ShellSnapshot names the commands that share what start-up files have set
// (docs/spec/wire.md §4.9).
type ShellSnapshot struct {
	ScopeID string
	Shell   SnapshotShell
}

func (p *ShellSnapshot) fields(c *codec) {
	text(c, "scopeId", need, &p.ScopeID)
	nested(c, "shell", need, &p.Shell)
}

// SnapshotShell is the shell of a ShellSnapshot: its name and native path.
type SnapshotShell struct {
	Name string
	Path string
}

func (p *SnapshotShell) fields(c *codec) {
	text(c, "name", need, &p.Name)
	text(c, "path", need, &p.Path)
}

// StartParams start a process (docs/spec/wire.md §4.1). ProcessID, Argv, Cwd,
// Env and TTY are required.
type StartParams struct {
	ProcessID string
	Argv      []string
	Cwd       string
	Env       map[string]string
	TTY       bool
	// Arg0 is what the process sees as its name; nil: argv[0].
	Arg0      *string
	PipeStdin bool
	EnvPolicy *EnvPolicy
	// Sandbox is the undecoded sandbox context; nil when absent or null.
	Sandbox               json.RawMessage
	EnforceManagedNetwork bool
	// ManagedNetwork is ignored if there is a NetworkProxy.
	ManagedNetwork *ManagedNetwork
	// NetworkProxy asks for a network proxy of the process; nil: none.
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
	// output that was held back comes after it; the close comes when all output
	// was read.
	OutputWindow uint64
	// Detach has the process belong to the client's user or token in place of the
	// session, and outlive both and the server; nil: it belongs to the session.
	Detach *Detach
	// Retain is for a process with Detach; nil: the server's defaults.
	Retain *Retain
	// Limits bound what the process and its descendants use (extension
	// process/limits); nil: the server's own limits alone.
	Limits *ProcessLimits
}

var errNoArgv = errors.New("argv must not be empty")

func (p *StartParams) fields(c *codec) {
	text(c, "processId", need, &p.ProcessID)
	texts(c, "argv", need, &p.Argv)
	text(c, "cwd", need, &p.Cwd)
	textMap(c, "env", need, &p.Env)
	boolean(c, "tty", need, &p.TTY)
	optional(c, "arg0", orNull, &p.Arg0, textValue)
	boolean(c, "pipeStdin", 0, &p.PipeStdin)
	optional(c, "envPolicy", orNull, &p.EnvPolicy, objectValue)
	raw(c, "sandbox", orNull, &p.Sandbox)
	boolean(c, "enforceManagedNetwork", 0, &p.EnforceManagedNetwork)
	optional(c, "managedNetwork", orNull|omit, &p.ManagedNetwork, objectValue)
	optional(c, "networkProxy", orNull|omit, &p.NetworkProxy, bareValue)
	optional(c, "metadata", orNull|omit, &p.Metadata, objectValue)
	optional(c, "shellSnapshot", orNull|omit, &p.ShellSnapshot, objectValue)
	optional(c, "size", orNull|omit, &p.Size, objectValue)
	uint64s(c, "outputWindow", orNull|omit, &p.OutputWindow)
	optional(c, "detach", orNull|omit, &p.Detach, objectValue)
	optional(c, "retain", orNull|omit, &p.Retain, objectValue)
	optional(c, "limits", orNull|omit, &p.Limits, objectValue)
	c.refuse(len(p.Argv) == 0, errNoArgv)
}

// StartResult answers process/start. SandboxType is "none" or
// "linuxSeccomp".
type StartResult struct {
	ProcessID   string
	SandboxType string
	// Limits says how each limit of the process is held; only if StartParams.Limits
	// was given.
	Limits []HeldLimit
}

func (r *StartResult) fields(c *codec) {
	text(c, "processId", orNull, &r.ProcessID)
	text(c, "sandboxType", orNull|omit, &r.SandboxType)
	objects(c, "limits", orNull|omit, &r.Limits)
}

// AppendJSON appends r.
func (r StartResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// ReadParams ask for retained output with a number above AfterSeq, at most
// MaxBytes of it (but at least one chunk), waiting up to WaitMS milliseconds
// for something to report.
type ReadParams struct {
	ProcessID string
	AfterSeq  *uint64
	MaxBytes  *uint64
	WaitMS    *uint64
	// Consume says, about a detached process, that no reader needs the events up to
	// AfterSeq any more.
	Consume bool
	// Details asks for the Cause and the Resources of the result (extension
	// process/limits).
	Details bool
}

func (p *ReadParams) fields(c *codec) {
	text(c, "processId", need, &p.ProcessID)
	optional(c, "afterSeq", orNull, &p.AfterSeq, uint64Value)
	optional(c, "maxBytes", orNull, &p.MaxBytes, uint64Value)
	optional(c, "waitMs", orNull, &p.WaitMS, uint64Value)
	boolean(c, "consume", orNull|omit, &p.Consume)
	boolean(c, "details", orNull|omit, &p.Details)
}

// OutputChunk is one numbered piece of output, at most MaxOutputChunk bytes
// from this server.
type OutputChunk struct {
	Seq    uint64
	Stream Stream
	Chunk  []byte
}

func (p *OutputChunk) fields(c *codec) {
	uint64s(c, "seq", orNull, &p.Seq)
	text(c, "stream", orNull, &p.Stream)
	base64s(c, "chunk", 0, &p.Chunk)
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
	// Dropped is, of a detached process, what would come before the chunks and is not
	// retained any more; nil: nothing.
	Dropped *EventRange
	// Waiting says why a detached process waits for room for its output; "": it does not.
	Waiting   string
	Cause     Cause
	Resources *ProcessResources
}

func (r *ReadResult) fields(c *codec) {
	objects(c, "chunks", orNull, &r.Chunks)
	uint64s(c, "nextSeq", orNull, &r.NextSeq)
	boolean(c, "exited", orNull, &r.Exited)
	optional(c, "exitCode", orNull, &r.ExitCode, integerValue)
	boolean(c, "closed", orNull, &r.Closed)
	optional(c, "failure", orNull, &r.Failure, textValue)
	boolean(c, "sandboxDenied", orNull, &r.SandboxDenied)
	optional(c, "dropped", orNull|omit, &r.Dropped, objectValue)
	text(c, "waiting", orNull|omit, &r.Waiting)
	text(c, "cause", orNull|omit, &r.Cause)
	optional(c, "resources", orNull|omit, &r.Resources, objectValue)
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

func (p *WriteParams) fields(c *codec) {
	text(c, "processId", need, &p.ProcessID)
	base64s(c, "chunk", need, &p.Chunk)
	optional(c, "writeId", orNull|omit, &p.WriteID, textValue)
	c.refuse(p.WriteID != nil && *p.WriteID == "", errNoWriteID)
}

// WriteResult answers process/write.
type WriteResult struct {
	Status WriteStatus
}

func (r *WriteResult) fields(c *codec) {
	text(c, "status", orNull, &r.Status)
}

// AppendJSON appends r.
func (r WriteResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// Signal is a signal by name.
type Signal string

// The signals of process/signal; Codex CLI knows only interrupt.
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
}

func (p *SignalParams) fields(c *codec) {
	text(c, "processId", need, &p.ProcessID)
	choice(c, "signal", need, &p.Signal, signals)
}

// ProcessParams name one process: terminate and closeStdin.
type ProcessParams struct {
	ProcessID string
}

func (p *ProcessParams) fields(c *codec) {
	text(c, "processId", need, &p.ProcessID)
}

// ProcessAck is process/ack: the client has consumed a process's events up to and
// including Seq (see StartParams.OutputWindow). The highest Seq counts. One beyond
// the newest event acknowledges future events too, so after 2^53-1 nothing more is
// held back. A process that is unknown or has no window is no error.
type ProcessAck struct {
	ProcessID string
	Seq       uint64
}

func (p *ProcessAck) fields(c *codec) {
	text(c, "processId", need, &p.ProcessID)
	uint64s(c, "seq", need, &p.Seq)
}

// TerminateResult answers process/terminate: whether the process was still
// running.
type TerminateResult struct {
	Running bool
}

func (r *TerminateResult) fields(c *codec) {
	boolean(c, "running", orNull, &r.Running)
}

// AppendJSON appends r.
func (r TerminateResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// ResizeParams set the size of a process's terminal.
type ResizeParams struct {
	ProcessID string
	Rows      uint16
	Cols      uint16
}

func (p *ResizeParams) fields(c *codec) {
	text(c, "processId", need, &p.ProcessID)
	uint16s(c, "rows", need, &p.Rows)
	uint16s(c, "cols", need, &p.Cols)
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
	// Cause and Resources are those of ExitedNotification, once it has ended.
	Cause     Cause
	Resources *ProcessResources
	// Usage is there while the process runs, if ListParams.Usage asks for it and the
	// server knows.
	Usage *ProcessUsage
	// Session names the session, if ListParams.Scope may include several: a digest of its
	// id. Client is the name of its client.
	Session, Client string
}

func (p *ProcessInfo) fields(c *codec) {
	text(c, "processId", orNull, &p.ProcessID)
	texts(c, "argv", orNull, &p.Argv)
	int64s(c, "startedAtMs", orNull, &p.StartedAtMS)
	boolean(c, "exited", orNull, &p.Exited)
	optional(c, "exitCode", orNull, &p.ExitCode, integerValue)
	boolean(c, "closed", orNull, &p.Closed)
	boolean(c, "tty", orNull, &p.TTY)
	text(c, "cause", orNull|omit, &p.Cause)
	optional(c, "resources", orNull|omit, &p.Resources, objectValue)
	optional(c, "usage", orNull|omit, &p.Usage, objectValue)
	text(c, "session", orNull|omit, &p.Session)
	text(c, "client", orNull|omit, &p.Client)
}

// ListResult answers process/list.
type ListResult struct {
	Processes []ProcessInfo
	// Omitted is how many older processes of other sessions are left out.
	Omitted uint64
}

func (r *ListResult) fields(c *codec) {
	objects(c, "processes", orNull, &r.Processes)
	uint64s(c, "omitted", orNull|omit, &r.Omitted)
}

// AppendJSON appends r.
func (r ListResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }
