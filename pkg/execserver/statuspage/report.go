package statuspage

import (
	"strings"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/logtext"
)

const (
	// Path is the path of the page.
	Path = "/status"
	// MaxProcesses bounds the processes of a session on the page, and MaxCommand the bytes of a
	// command.
	MaxProcesses = 200
	MaxCommand   = 300
)

// Report is the content of the status page for one principal.
type Report struct {
	Version string    `json:"version"`
	Host    string    `json:"host"`
	Since   time.Time `json:"since"`
	// Sandbox is the backend. It is empty until a client has connected.
	Sandbox  string     `json:"sandbox,omitempty"`
	Sessions []Session  `json:"sessions"`
	Detached []Detached `json:"detached,omitempty"`
}

// Session is a session on the status page.
type Session struct {
	Session   string    `json:"session"`         // the digest that is also in the log
	Owner     string    `json:"owner,omitempty"` // set if it may be another principal's session
	Client    string    `json:"client"`
	Peer      string    `json:"peer"`
	Attached  bool      `json:"attached"`
	Since     time.Time `json:"since"`
	Tunnels   int       `json:"tunnels"`
	Requests  uint64    `json:"requests"` // since the start of the session
	Processes []Process `json:"processes"`
	// Omitted is the number of processes that the page does not list.
	Omitted int `json:"omitted,omitempty"`
}

// Process is a process on the status page.
type Process struct {
	ID        string          `json:"processId"`
	Command   string          `json:"command"`
	State     string          `json:"state"` // starting, running, exited, closed
	Since     time.Time       `json:"since"`
	Sandboxed bool            `json:"sandboxed"`
	BytesIn   int64           `json:"bytesIn"`
	BytesOut  int64           `json:"bytesOut"`
	ExitCode  *int            `json:"exitCode,omitempty"`
	Cause     execproto.Cause `json:"cause,omitempty"`
	Usage     *Usage          `json:"usage,omitempty"`
	// Key is the key of the Target with which the client may end the process; nil: it may not.
	Key Key `json:"-"`
}

// Usage is execproto.ProcessUsage on the status page.
type Usage struct {
	UserMS      uint64 `json:"userMs"`
	SystemMS    uint64 `json:"systemMs"`
	MemoryBytes uint64 `json:"memoryBytes"`
	Processes   uint64 `json:"processes"`
}

// Detached is a detached process on the status page.
type Detached struct {
	Owner    string    `json:"owner,omitempty"`
	ID       string    `json:"processId"`
	Command  string    `json:"command"`
	State    string    `json:"state"` // running, exited, closed, unknown
	Since    time.Time `json:"since"`
	ExitCode *int      `json:"exitCode,omitempty"`
	Retained uint64    `json:"retained"`
	Usage    *Usage    `json:"usage,omitempty"`
	// Key is as in Process.
	Key Key `json:"-"`
}

// Key identifies a process, and differs from the keys of earlier processes with the same id.
type Key []string

// CommandLine returns a command line in the form in which the page shows it.
func CommandLine(argv []string) string { return logtext.Clip(strings.Join(argv, " "), MaxCommand) }
