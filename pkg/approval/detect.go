package approval

import (
	"time"

	"codex.internal/pkg/execproto"
)

// Window says how long a denial can be told from an ordinary end, and with it
// which denials are asked about. The zero value waits for the end however long
// that takes: that is for a caller who stays with the process.
type Window struct {
	// Exit is how long after its start a process may end for its denial to
	// count; 0: as long as it takes.
	Exit time.Duration
	// Output is how long after an exit the rest of the output is waited for;
	// 0: until it is complete.
	Output time.Duration
}

// ReferenceWindow is the window of the reference, in which a command that
// takes longer than 150 ms to be denied is not retried.
func ReferenceWindow() Window { return Window{Exit: referenceExit, Output: referenceOutput} }

// Detector finds out how an attempt ended from what the server tells of the
// process: results of process/read, notifications, or both. It has no clock;
// times are the caller's. It is not safe for concurrent use.
//
// Servers of 0.142.0 tell of a denial in process/read only. With those, read
// once more after the exit.
type Detector struct {
	window  Window
	started time.Time
	exited  time.Time // zero: not yet
	closed  bool
	result  Result
}

// NewDetector returns a detector for a process that was started at a time.
func NewDetector(w Window, started time.Time) *Detector {
	return &Detector{window: w, started: started, result: Result{ExitCode: -1}}
}

// Read takes a result of process/read that came at a time.
func (d *Detector) Read(at time.Time, r execproto.ReadResult) {
	// First, so that whoever sees the exit sees the denial.
	d.result.Denied = d.result.Denied || r.SandboxDenied
	if r.Failure != nil {
		d.result.Failure = *r.Failure
		d.exit(at)
		d.closed = true
	}
	if r.ExitCode != nil {
		d.result.ExitCode = *r.ExitCode
	}
	if r.Exited {
		d.exit(at)
	}
	d.closed = d.closed || r.Closed
}

// Exited takes a process/exited that came at a time.
func (d *Detector) Exited(at time.Time, exitCode int, sandboxDenied bool) {
	d.result.Denied = d.result.Denied || sandboxDenied
	d.result.ExitCode = exitCode
	d.exit(at)
}

// Closed takes a process/closed that came at a time.
func (d *Detector) Closed(at time.Time) {
	d.exit(at)
	d.closed = true
}

// exit notes the first sign that the process has ended.
func (d *Detector) exit(at time.Time) {
	if d.exited.IsZero() {
		d.exited = at
		d.result.Late = d.window.Exit > 0 && at.Sub(d.started) > d.window.Exit
	}
}

// Result returns how the attempt ended, and whether that is known at a time:
// the process has exited, and its output is complete or was waited for.
func (d *Detector) Result(now time.Time) (Result, bool) {
	switch {
	case d.exited.IsZero():
		return Result{}, false
	case d.closed, d.window.Output > 0 && now.Sub(d.exited) >= d.window.Output:
		return d.result, true
	default:
		return Result{}, false
	}
}

// Deadline returns when there is nothing left to wait for, zero if there is no
// such time: while the process runs when its denial ceases to count, after its
// exit when the wait for output is over.
func (d *Detector) Deadline() time.Time {
	switch {
	case d.exited.IsZero() && d.window.Exit > 0:
		return d.started.Add(d.window.Exit)
	case !d.exited.IsZero() && d.window.Output > 0:
		return d.exited.Add(d.window.Output)
	default:
		return time.Time{}
	}
}
