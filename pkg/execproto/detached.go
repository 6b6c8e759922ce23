package execproto

import "errors"

// DetachedPrefix begins the ids of detached processes. What follows is the handle that a
// person knows: 1 to MaxHandleName letters, digits, dots, hyphens and underscores, of
// which the first is a letter or digit.
const DetachedPrefix = "detached/"

// WhenFull says what happens to output of a detached process that has no room.
type WhenFull string

// The values of WhenFull.
const (
	// WhenFullDropOldest drops the oldest output.
	WhenFullDropOldest WhenFull = "dropOldest"
	// WhenFullWait has the process wait until ReadParams.Consume makes room.
	WhenFullWait WhenFull = "wait"
)

var errWhenFull = errors.New("whenFull must be `dropOldest` or `wait`")

// Detach makes the process of a process/start a detached one (docs/spec/wire.md §4.10).
type Detach struct {
	// StartID names this start. A start of a process that exists by the same StartID
	// succeeds: the client has lost the answer to the first one.
	StartID string
}

func (d *Detach) fields(c *codec) {
	text(c, "startId", need, &d.StartID)
}

// Retain says how much output of a detached process is retained, and for how long after
// its end. What is 0 or empty has the server's default.
type Retain struct {
	Bytes    uint64
	Seconds  uint64
	WhenFull WhenFull
}

func (r *Retain) fields(c *codec) {
	uint64s(c, "bytes", orNull|omit, &r.Bytes)
	uint64s(c, "seconds", orNull|omit, &r.Seconds)
	text(c, "whenFull", orNull|omit, &r.WhenFull)
	c.refuse(r.WhenFull != "" && r.WhenFull != WhenFullDropOldest && r.WhenFull != WhenFullWait, errWhenFull)
}

// EventRange are the events First to Last of a process.
type EventRange struct {
	First uint64
	Last  uint64
}

func (r *EventRange) fields(c *codec) {
	uint64s(c, "first", need, &r.First)
	uint64s(c, "last", need, &r.Last)
}

// Why a detached process waits, in ReadResult and DetachedProcess.
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
	Failure     string // why nothing is known of its end; "": it is running, or ended
	Retained    uint64 // bytes of output on disk
	FirstSeq    uint64 // the oldest event that is retained; 0: none is
	Waiting     string // as in ReadResult
	Retain      Retain // as it is in effect
	// Usage is there while the process runs, if ListParams.Usage asks for it and its
	// keeper knows.
	Usage *ProcessUsage
}

func (p *DetachedProcess) fields(c *codec) {
	text(c, "processId", orNull, &p.ProcessID)
	texts(c, "argv", orNull, &p.Argv)
	text(c, "cwd", orNull, &p.Cwd)
	boolean(c, "tty", orNull, &p.TTY)
	int64s(c, "startedAtMs", orNull, &p.StartedAtMS)
	boolean(c, "exited", orNull, &p.Exited)
	optional(c, "exitCode", orNull, &p.ExitCode, integerValue)
	boolean(c, "closed", orNull, &p.Closed)
	int64s(c, "endedAtMs", orNull|omit, &p.EndedAtMS)
	text(c, "failure", orNull|omit, &p.Failure)
	uint64s(c, "retained", orNull, &p.Retained)
	uint64s(c, "firstSeq", orNull, &p.FirstSeq)
	text(c, "waiting", orNull|omit, &p.Waiting)
	nested(c, "retain", 0, &p.Retain)
	optional(c, "usage", orNull|omit, &p.Usage, objectValue)
}

// DetachedResult answers process/listDetached.
type DetachedResult struct {
	Processes []DetachedProcess
}

func (r *DetachedResult) fields(c *codec) {
	objects(c, "processes", orNull, &r.Processes)
}

// AppendJSON appends r.
func (r DetachedResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }
