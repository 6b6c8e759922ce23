package approval

import (
	"time"

	"codex.internal/pkg/execproto"
)

// Window limits which denials count, and so which are asked about. The zero value
// has no limits: it is for a caller that waits for the end of the process.
type Window struct {
	// Exit is how long after its start a process may end for its denial to
	// count; 0: as long as it takes.
	Exit time.Duration
	// Output is how long to wait for the rest of the output after an exit; 0:
	// until it is complete.
	Output time.Duration
}

// Detector determines how an attempt ended from the server's messages about the
// process: results of process/read, notifications, or both. It has no clock: the
// caller passes times. It is not safe for concurrent use.
//
// Servers of 0.142.0 report a denial in process/read only. With those, the caller
// must read once more after the exit.
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

// exit records the time of the first message about the end of the process.
func (d *Detector) exit(at time.Time) {
	if d.exited.IsZero() {
		d.exited = at
		d.result.Late = d.window.Exit > 0 && at.Sub(d.started) > d.window.Exit
	}
}

// Result returns how the attempt ended, and whether that is known at the time now:
// the process has exited, and its output is complete or Window.Output has passed.
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

// Deadline returns the time at which a wait must end: while the process runs, the
// end of Window.Exit; after its exit, that of Window.Output. It returns the zero
// time if there is no limit.
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
