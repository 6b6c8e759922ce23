package execproto

import (
	"errors"

	"codex.internal/pkg/wire/jsonwire"
)

// DetachedPrefix begins the ids of detached processes. After it comes the handle that
// the user knows: 1 to MaxHandleName letters, digits, dots, hyphens and underscores,
// beginning with a letter or digit.
const DetachedPrefix = "detached/"

// WhenFull selects what happens to output of a detached process when the space for it is
// used up.
type WhenFull string

// The values of WhenFull.
const (
	// WhenFullDropOldest drops the oldest output.
	WhenFullDropOldest WhenFull = "dropOldest"
	// WhenFullWait makes the process wait until ReadParams.Consume frees space.
	WhenFullWait WhenFull = "wait"
)

var errWhenFull = errors.New("whenFull must be `dropOldest` or `wait`")

// Detach makes the process of a process/start a detached one (docs/spec/wire.md §4.10).
type Detach struct {
	// StartID identifies this start. If the process already exists and was started with the
	// same StartID, the start succeeds: the client repeats it because it has lost the answer.
	StartID string
}

func (d *Detach) Fields(c *jsonwire.Codec) {
	c.Text("startId", need, &d.StartID)
}

// Retain says how much output of a detached process is retained, and for how long after
// its end. A field that is 0 or empty means the server's default.
type Retain struct {
	Bytes    uint64
	Seconds  uint64
	WhenFull WhenFull
}

func (r *Retain) Fields(c *jsonwire.Codec) {
	c.Uint64("bytes", orNull|omit, &r.Bytes)
	c.Uint64("seconds", orNull|omit, &r.Seconds)
	jsonwire.Word(c, "whenFull", orNull|omit, &r.WhenFull)
	c.Refuse(r.WhenFull != "" && r.WhenFull != WhenFullDropOldest && r.WhenFull != WhenFullWait, errWhenFull)
}

// EventRange are the events First to Last of a process.
type EventRange struct {
	First uint64
	Last  uint64
}

func (r *EventRange) Fields(c *jsonwire.Codec) {
	c.Uint64("first", need, &r.First)
	c.Uint64("last", need, &r.Last)
}

// The reasons for which a detached process waits, in ReadResult and DetachedProcess.
const (
	// WaitingLimit: its output has reached Retain.Bytes.
	WaitingLimit = "limit"
	// WaitingDisk: the disk is full.
	WaitingDisk = "disk"
)

// DetachedProcess describes one detached process in DetachedResult.
type DetachedProcess struct {
	ProcessID   string
	Argv        []string
	Cwd         string
	TTY         bool
	StartedAtMS int64
	Exited      bool
	ExitCode    *int
	Closed      bool
	EndedAtMS   int64  // 0: it has not closed
	Failure     string // the reason why its end is unknown; "": it runs, or its end is known
	Retained    uint64 // bytes of output on disk
	FirstSeq    uint64 // the oldest retained event; 0: none
	Waiting     string // as in ReadResult
	Retain      Retain // the values in effect
	// Usage is set while the process runs, if ListParams.Usage asks for it and its
	// keeper knows.
	Usage *ProcessUsage
}

func (p *DetachedProcess) Fields(c *jsonwire.Codec) {
	c.Text("processId", orNull, &p.ProcessID)
	c.Texts("argv", orNull, &p.Argv)
	c.Text("cwd", orNull, &p.Cwd)
	c.Bool("tty", orNull, &p.TTY)
	c.Int64("startedAtMs", orNull, &p.StartedAtMS)
	c.Bool("exited", orNull, &p.Exited)
	jsonwire.Optional(c, "exitCode", orNull, &p.ExitCode, jsonwire.IntValue)
	c.Bool("closed", orNull, &p.Closed)
	c.Int64("endedAtMs", orNull|omit, &p.EndedAtMS)
	c.Text("failure", orNull|omit, &p.Failure)
	c.Uint64("retained", orNull, &p.Retained)
	c.Uint64("firstSeq", orNull, &p.FirstSeq)
	c.Text("waiting", orNull|omit, &p.Waiting)
	c.Struct("retain", 0, &p.Retain)
	jsonwire.Optional(c, "usage", orNull|omit, &p.Usage, jsonwire.StructValue)
}

// DetachedResult answers process/listDetached.
type DetachedResult struct {
	Processes []DetachedProcess
}

func (r *DetachedResult) Fields(c *jsonwire.Codec) {
	jsonwire.Structs(c, "processes", orNull, &r.Processes)
}

// AppendJSON appends r.
func (r DetachedResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }
