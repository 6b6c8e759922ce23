package observe

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/tracing"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/wire/logtext"
)

// Events is the interface between the code that does the work of a server and its observers:
// metrics, the audit trail, traces and the log. Each member is one event. The code reports an
// event once, and every observer that has added a function for it gets it. The functions must
// not block, except those of a Gate, which write to disk. They may be called from any goroutine
// at any time.
type Events struct {
	// Connections.
	ConnectionOpened  Hook[Transport]
	ConnectionClosed  Hook[Transport]
	ConnectionRefused Hook[Refused]
	BytesMoved        Hook[Bytes]
	LimitReached      Hook[Limit]

	// Sessions.
	SessionStarting Gate[Session]
	SessionResumed  Hook[Session]
	SessionEnded    Hook[SessionEnd]

	// Requests: each request arrives, then runs or is refused, and is done.
	RequestArrived Hook[*Request]
	RequestRuns    Hook[*Request]
	RequestRefused Hook[Forbidden]
	RequestDone    Hook[RequestEnd]

	// Processes: after StartBegan comes either StartFailed, or Starting, Started, Exited and Closed.
	ProcessStartBegan  Hook[*Process]
	ProcessStarting    Gate[*Process] // the command and the sandbox are known
	ProcessStarted     Hook[*Process]
	ProcessStartFailed Hook[StartFailure]
	ProcessExited      Hook[*Process]
	ProcessClosed      Hook[*Process]
	ProcessEndAsked    Gate[EndRequest]
	NetworkDecided     Hook[Decision]
	StepBegan          Hook[*Step]
	StepDone           Hook[*Step]

	// Detached processes, as the server sees them. Their keepers report the events above.
	DetachedStarting    Gate[Detached]
	DetachedStartFailed Hook[Detached]
	DetachedEnded       Hook[Detached]
	KeeperSpansDropped  Hook[tracing.Counts]

	// Files.
	FileStarting  Gate[*File]
	FileDone      Hook[*File]
	HelperStarted Hook[Helper]

	// HTTP requests of clients.
	HTTPStarting Gate[*HTTP]
	HTTPDone     Hook[*HTTP]

	// Tunnels.
	TunnelOpening   Gate[Tunnel]
	TunnelListening Gate[Tunnel]
	TunnelOpened    Hook[Tunnel]
	TunnelClosed    Hook[Tunnel]
}

// Hook is an event that has happened.
type Hook[E any] struct{ observers []func(E) }

// Add adds a function that is called with each event. It must not be called after the first
// event.
func (h *Hook[E]) Add(f func(E)) { h.observers = append(h.observers, f) }

// Tell reports the event to every observer.
func (h *Hook[E]) Tell(e E) {
	for _, f := range h.observers {
		f(e)
	}
}

// Gate is an event before an operation. If an observer returns an error, the operation must not
// be carried out. The audit trail does so if it cannot be written.
type Gate[E any] struct{ observers []func(E) error }

// Add adds a function that is called with each event. It must not be called after the first
// event.
func (g *Gate[E]) Add(f func(E) error) { g.observers = append(g.observers, f) }

// Ask calls the observers until one of them returns an error, and returns that error, which is
// the answer to the request.
func (g *Gate[E]) Ask(e E) error {
	for _, f := range g.observers {
		if err := f(e); err != nil {
			return err
		}
	}
	return nil
}

// Transport is the kind of a connection in metrics.
type Transport string

// The transports.
const (
	Websocket Transport = "websocket"
	Stdio     Transport = "stdio"
	Relay     Transport = "relay"
)

// Refused describes a client that was refused.
type Refused struct {
	Status    int    // HTTP status
	Principal string // "": unknown
	Peer      string
	Err       error
}

// Flow is the purpose of transferred bytes.
type Flow int

// The flows of bytes.
const (
	Received   Flow = iota // messages of clients
	Sent                   // messages to clients
	Stdin                  // input of processes
	Stdout                 // output of processes
	Stderr                 // error output of processes
	Terminal               // output of processes
	FromClient             // through tunnels
	ToClient               // through tunnels
	flows
)

// Bytes are bytes that were moved.
type Bytes struct {
	Flow Flow
	N    int
}

// Limit is the name of a limit. If the limit is reached, the server refuses a request.
type Limit string

// The limits that are counted.
const (
	LimitConnections  Limit = "connections"
	LimitProcesses    Limit = "processes"
	LimitHandles      Limit = "handles"
	LimitWaiting      Limit = "waiting_requests"
	LimitMessageBytes Limit = "message_bytes"
	LimitQuestions    Limit = "questions"
	LimitArchives     Limit = "archives"
	LimitDetached     Limit = "detached"
	LimitHTTPBodies   Limit = "http_bodies"
	LimitWatches      Limit = "watches"
	LimitTunnels      Limit = "tunnels"
	LimitListeners    Limit = "listeners"
	LimitDescriptors  Limit = "descriptors"
	LimitFileCalls    Limit = "file_calls" // concurrent calls; others wait
	LimitTurns        Limit = "turns"      // requests in their first millisecond; others wait
	LimitMemory       Limit = "memory"     // bytes of answers and messages; others wait
	LimitMachine      Limit = "machine"    // memory, descriptors or processes of the machine are used up
)

// Limits has all limits.
var Limits = []Limit{
	LimitConnections, LimitProcesses, LimitHandles, LimitWaiting, LimitMessageBytes, LimitQuestions, LimitArchives,
	LimitDetached, LimitHTTPBodies, LimitWatches, LimitTunnels, LimitListeners, LimitDescriptors, LimitFileCalls, LimitTurns, LimitMemory, LimitMachine,
}

// LimitError is the error of a request that exceeds a limit. When the server sends it as the
// answer, it reports LimitReached.
type LimitError struct {
	Limit Limit
	error
}

// Unwrap returns the error of the request.
func (e *LimitError) Unwrap() error { return e.error }

// Bound is one restriction of a token.
type Bound string

// The bounds.
const (
	ByRole    Bound = "role"
	ByCeiling Bound = "ceiling"
)

// ForbiddenError is the error of a request that the client's token does not permit. When the
// server sends it as the answer, it reports RequestRefused.
type ForbiddenError struct {
	By Bound
	error
}

// Unwrap returns the error of the request.
func (e *ForbiddenError) Unwrap() error { return e.error }

// Forbid makes a ForbiddenError of err, which has a code and a text.
func Forbid(by Bound, err error) error { return &ForbiddenError{by, err} }

// Forbidden describes a request that the client's token does not permit.
type Forbidden struct {
	*ForbiddenError
	Session Session // Session.ID is "" before initialize
	Method  string
}

// AtLimit makes a LimitError of err, which has a code and a text.
func AtLimit(limit Limit, err error) error { return &LimitError{limit, err} }

// AtShortage returns answer, the error of a request that failed because of err. If err means a
// shortage of the machine, the result is a LimitError of LimitMachine.
func AtShortage(err, answer error) error {
	if _, ok := errors.AsType[*process.ShortageError](err); ok {
		return AtLimit(LimitMachine, answer)
	}
	return answer
}

// Session identifies the session of an event.
type Session struct {
	ID           string // digest of the session's id, as in the log
	Principal    string
	Client, Peer string // of the connection; only set in SessionStarting, SessionResumed and RequestRefused
}

// SessionEnd is the end of a session.
type SessionEnd struct {
	Session Session
	Reason  string
}

// Request is a request from its arrival to its answer.
type Request struct {
	Principal string
	Method    string // UnknownMethod if the server has no such method
	Arrived   time.Time
	Trace     []byte // the member trace of the request; valid until RequestArrived returns

	trace tracing.Context // the client's trace; invalid: the client has sent none
	span  *tracing.Span   // nil: the request is not traced
}

// UnknownMethod stands for all methods that the server does not support.
const UnknownMethod = "unknown"

// RequestEnd is the answer to a request.
type RequestEnd struct {
	*Request
	Err error // nil: the answer is a result
	// Unanswered means that the connection ended before the request was answered.
	Unanswered bool
}

// Policy is the permissions of a sandbox, which can be written as JSON.
type Policy interface{ AppendJSON(b []byte) []byte }

// Process is a process of a session. The server sets the members of a group before it reports
// the event that the group's comment names.
type Process struct {
	// Set at ProcessStartBegan.
	Session          Session
	ID               string
	Thread, ToolCall string // as the client has given them
	TTY              bool
	Log              *slog.Logger
	Within           *tracing.Span   // span of the request; nil: the request is not traced
	Trace            tracing.Context // trace of the request; invalid: the process belongs to no trace

	// Set at ProcessStarting.
	Argv    []string
	Dir     string
	Sandbox string // sandboxType in the answer to the client
	Policy  Policy // nil: there is no sandbox
	Backend string // backend of the sandbox; "": there is no sandbox, or it was not reached

	// Set at ProcessStarted; Took is also set at ProcessStartFailed.
	PID  int
	Took time.Duration // duration of the start

	// Set at ProcessExited.
	Exit Exit

	// In and Out count the bytes of the process's input and output.
	In, Out atomic.Int64

	span      *tracing.Span // nil: the process is not traced
	recorded  bool          // the audit trail has the start
	decisions atomic.Uint64 // number of decisions about its network
}

// Exit is how a process has exited.
type Exit struct {
	Code      int
	Cause     execproto.Cause
	Duration  time.Duration // since the request that started the process
	Processor time.Duration // processor time that the process has used
	// Refusal is the reason why the sandbox could not be set up, so that the command has not
	// run. It is nil if the sandbox was set up, or if there is none.
	Refusal *execproto.SandboxRefusal
}

// StartFailure is the reason why a process did not start.
type StartFailure struct {
	*Process
	Err error
}

// Decision is a decision about a connection of a process with a network proxy.
type Decision struct {
	*Process
	Verdict, Source, Reason string
	Asked                   bool // the client was asked
	Protocol, Host, Method  string
	Port                    uint16
}

// Step is a part of a request that has a span of its own.
type Step struct {
	Name   string
	Within *tracing.Span // span of the request; nil: the request is not traced
	Err    error         // set at StepDone

	span *tracing.Span
}

// The names of steps.
const (
	StepPrepareSandbox = "codex.exec_server.process_prepare_sandbox"
	StepSpawn          = "codex.process.spawn"
)

// EndRequest is the request of a user to end a process on the status page.
type EndRequest struct {
	Session          string // "": the process is detached
	Owner            string // owner of the session; "": the process is detached
	Process          string
	Thread, ToolCall string
	Principal, Peer  string // the client that ends it
}

// Detached is a detached process, as its server sees it.
type Detached struct {
	Session          Session // at DetachedStarting; later events have only its Principal
	ID               string
	Thread, ToolCall string

	// Set at DetachedStarting.
	Argv    []string
	Cwd     string
	Sandbox []byte // the sandbox of the request as JSON; nil: none

	// Set at DetachedStartFailed.
	Err error

	// Set at DetachedEnded. Lost means that the way in which it has ended is unknown.
	Cause    string
	ExitCode int
	LastedMS int64
	In, Out  int64
	Refusal  string
	Lost     string
}

// File is a file operation.
type File struct {
	Session Session
	Method  string
	Changes bool // the operation changes files and is in the audit trail
	Paths   []string
	Policy  Policy        // nil: there is no sandbox
	Within  *tracing.Span // span of the request; nil: the operation gets no span of its own
	Err     error         // set at FileDone

	span     *tracing.Span
	recorded bool
}

// Helper is the start of a helper for a confined file request.
type Helper struct {
	Backend string
	Took    time.Duration
	Err     error // why the helper did not start
}

// HTTP is an HTTP request of a client.
type HTTP struct {
	Session     Session
	Method, URL string
	Within      *tracing.Span // span of the request; nil: the request is not traced
	Status      int           // set at HTTPDone, unless Err is set
	Err         error

	span *tracing.Span
}

// Tunnel is a tunnel, or a port that is listened on for tunnels.
type Tunnel struct {
	Session Session
	Host    string
	Port    uint16
	Path    string // path of a Unix socket; "": the target is Host and Port
	Process string // process into whose sandbox the tunnel leads; "": none
}

// Short clips a text of a client for an error, the log or the audit trail.
func Short(text string) string {
	const limit = 200
	return logtext.Clip(text, limit)
}
