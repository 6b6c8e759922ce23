package execproto

import "encoding/json"

// Stream names the source of a process's output.
type Stream string

// The streams of a process: two pipes, or one terminal.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
	PTY    Stream = "pty"
)

// InitializeParams open a connection (docs/spec/wire.md §3.1).
type InitializeParams struct {
	ClientName      string  `json:"clientName"`
	ResumeSessionID *string `json:"resumeSessionId"`
	// TakeOver resumes the session even if it is attached to another connection
	// (extension initialize/takeOver). The server closes that one; over a
	// websocket with close code 1008 and the reason `session was resumed on
	// another connection`. It handles no message of that connection after the
	// answer to this request. TakeOver is ignored without ResumeSessionID.
	TakeOver bool `json:"takeOver,omitempty"`
}

// InitializeResult answers initialize. Extensions name what the server speaks
// of docs/spec/wire.md §8.2: requests, notifications, and ExtensionTakeOver.
type InitializeResult struct {
	SessionID       string           `json:"sessionId"`
	Extensions      []string         `json:"extensions,omitempty"`
	EnvironmentInfo *EnvironmentInfo `json:"environmentInfo,omitempty"`
}

// TerminalSize is a terminal's size in character cells.
type TerminalSize struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// EnvPolicy says what a process inherits of the server's environment before
// StartParams.Env is laid over it (docs/spec/wire.md §4.2).
type EnvPolicy struct {
	// Inherit is "all", "core" or "none".
	Inherit               string            `json:"inherit"`
	IgnoreDefaultExcludes bool              `json:"ignoreDefaultExcludes"`
	Exclude               []string          `json:"exclude"`
	Set                   map[string]string `json:"set"`
	IncludeOnly           []string          `json:"includeOnly"`
}

// StartMetadata says on whose behalf a process runs; it goes to the log.
type StartMetadata struct {
	ThreadID   string `json:"threadId,omitempty"`
	ToolCallID string `json:"toolCallId,omitempty"`
}

// StartParams start a process (docs/spec/wire.md §4.1). ProcessID, Argv, Cwd,
// Env and TTY are required.
type StartParams struct {
	ProcessID string            `json:"processId"`
	Argv      []string          `json:"argv"`
	Cwd       string            `json:"cwd"`
	Env       map[string]string `json:"env"`
	TTY       bool              `json:"tty"`
	// Arg0 is what the process sees as its name; nil: argv[0].
	Arg0      *string    `json:"arg0"`
	PipeStdin bool       `json:"pipeStdin"`
	EnvPolicy *EnvPolicy `json:"envPolicy"`
	// Sandbox is the undecoded sandbox context; nil when absent or null.
	Sandbox               json.RawMessage `json:"sandbox"`
	EnforceManagedNetwork bool            `json:"enforceManagedNetwork"`
	Metadata              *StartMetadata  `json:"metadata,omitempty"`
	// Size is the terminal's first size; nil: 24 rows, 80 columns.
	Size *TerminalSize `json:"size,omitempty"`
	// OutputWindow is how many bytes of output may be unacknowledged; 0: any
	// number. While events with that much output have not been acknowledged
	// with process/ack, the server reads no more, and output waits in the
	// process's pipe (extension process/ack). The server's limits are 64 KiB
	// and 512 KiB. The exit is sent without waiting for acknowledgements, so
	// output that was held back comes after it; the close comes when all output
	// was read.
	OutputWindow uint64 `json:"outputWindow,omitempty"`
}

// StartResult answers process/start. SandboxType is "none" or
// "linuxSeccomp".
type StartResult struct {
	ProcessID   string `json:"processId"`
	SandboxType string `json:"sandboxType,omitempty"`
}

// ReadParams ask for retained output with a number above AfterSeq, at most
// MaxBytes of it (but at least one chunk), waiting up to WaitMS milliseconds
// for something to report.
type ReadParams struct {
	ProcessID string  `json:"processId"`
	AfterSeq  *uint64 `json:"afterSeq"`
	MaxBytes  *uint64 `json:"maxBytes"`
	WaitMS    *uint64 `json:"waitMs"`
}

// OutputChunk is one numbered piece of output, at most MaxOutputChunk bytes
// from this server.
type OutputChunk struct {
	Seq    uint64 `json:"seq"`
	Stream Stream `json:"stream"`
	Chunk  []byte `json:"chunk"`
}

// ReadResult answers process/read. ExitCode is nil until the process ended.
type ReadResult struct {
	Chunks        []OutputChunk `json:"chunks"`
	NextSeq       uint64        `json:"nextSeq"`
	Exited        bool          `json:"exited"`
	ExitCode      *int          `json:"exitCode"`
	Closed        bool          `json:"closed"`
	Failure       *string       `json:"failure"`
	SandboxDenied bool          `json:"sandboxDenied"`
}

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
	ProcessID string  `json:"processId"`
	Chunk     []byte  `json:"chunk"`
	WriteID   *string `json:"writeId,omitempty"`
}

// WriteResult answers process/write.
type WriteResult struct {
	Status WriteStatus `json:"status"`
}

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

// SignalParams send a signal to a process's group.
type SignalParams struct {
	ProcessID string `json:"processId"`
	Signal    Signal `json:"signal"`
}

// ProcessParams name one process: terminate and closeStdin.
type ProcessParams struct {
	ProcessID string `json:"processId"`
}

// ProcessAck is process/ack: the client has consumed a process's events up to and
// including Seq (see StartParams.OutputWindow). The highest Seq counts. One beyond
// the newest event acknowledges future events too, so after 2^53-1 nothing more is
// held back. A process that is unknown or has no window is no error.
type ProcessAck struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
}

// TerminateResult answers process/terminate: whether the process was still
// running.
type TerminateResult struct {
	Running bool `json:"running"`
}

// ResizeParams set the size of a process's terminal.
type ResizeParams struct {
	ProcessID string `json:"processId"`
	Rows      uint16 `json:"rows"`
	Cols      uint16 `json:"cols"`
}

// ProcessInfo describes one process of the session in ListResult.
type ProcessInfo struct {
	ProcessID   string   `json:"processId"`
	Argv        []string `json:"argv"`
	StartedAtMS int64    `json:"startedAtMs"`
	Exited      bool     `json:"exited"`
	ExitCode    *int     `json:"exitCode"`
	Closed      bool     `json:"closed"`
	TTY         bool     `json:"tty"`
}

// ListResult answers process/list.
type ListResult struct {
	Processes []ProcessInfo `json:"processes"`
}

// OutputNotification is process/output. Seq counts output, exit and close of
// one process together, from 1.
type OutputNotification struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
	Stream    Stream `json:"stream"`
	Chunk     []byte `json:"chunk"`
}

// ExitedNotification is process/exited. ExitCode is the status, 128+n after
// signal n, or -1 when unknown.
type ExitedNotification struct {
	ProcessID     string `json:"processId"`
	Seq           uint64 `json:"seq"`
	ExitCode      int    `json:"exitCode"`
	SandboxDenied bool   `json:"sandboxDenied"`
	// SandboxRefusal is set only if the sandbox could not be made, so that the
	// command has not run. It is an extension of this server; clients that do not
	// know it ignore it.
	SandboxRefusal *SandboxRefusal `json:"sandboxRefusal,omitempty"`
}

// SandboxRefusal is a policy that could not be enforced, and the reason.
type SandboxRefusal struct {
	Policy json.RawMessage `json:"policy"` // the permission profile, with native paths
	Reason string          `json:"reason"`
}

// ClosedNotification is process/closed, the last event of a process.
type ClosedNotification struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
}
