package approval

import (
	"testing"
	"time"

	"codex.internal/pkg/execproto"
)

// codexWindow is the window of Codex CLI, which retries no command that takes longer
// than 150 ms to be denied.
var codexWindow = Window{Exit: 150 * time.Millisecond, Output: 20 * time.Millisecond}

func TestDetector(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ms := func(n int) time.Time { return start.Add(time.Duration(n) * time.Millisecond) }
	code, text := 1, "spawn failed"
	read := func(r execproto.ReadResult) func(*Detector, time.Time) {
		return func(d *Detector, at time.Time) { d.Read(at, r) }
	}
	exited := func(denied bool) func(*Detector, time.Time) {
		return func(d *Detector, at time.Time) { d.Exited(at, 1, denied) }
	}
	closed := (*Detector).Closed
	type event struct {
		at   int
		what func(*Detector, time.Time)
	}
	whole := execproto.ReadResult{Exited: true, ExitCode: &code, Closed: true, SandboxDenied: true}
	for _, tt := range []struct {
		name     string
		window   Window
		events   []event
		at       int
		ok       bool
		want     Result
		deadline int // in ms after the start, -1: none
	}{
		{"it runs", Window{}, nil, 1000, false, Result{}, -1},
		{"it runs, within Codex CLI's window", codexWindow, nil, 100, false, Result{}, 150},
		{"a read says everything", codexWindow, []event{{50, read(whole)}}, 50, true, Result{ExitCode: 1, Denied: true}, 70},
		{"a denial before the exit counts", codexWindow,
			[]event{{10, read(execproto.ReadResult{SandboxDenied: true})}, {20, exited(false)}, {30, closed}}, 30, true, Result{ExitCode: 1, Denied: true}, 40},
		{
			"a read after the exit says that it was denied", Window{}, []event{{10, exited(false)}, {20, closed}, {30, read(whole)}}, 30, true,
			Result{ExitCode: 1, Denied: true}, -1,
		},
		{"its own failure", Window{}, []event{{10, exited(false)}, {20, closed}}, 20, true, Result{ExitCode: 1}, -1},
		{"output is waited for", Window{}, []event{{10, exited(true)}}, 1000, false, Result{}, -1},
		{"but by Codex CLI not long", codexWindow, []event{{10, exited(true)}}, 29, false, Result{}, 30},
		{"than it is done", codexWindow, []event{{10, exited(true)}}, 30, true, Result{ExitCode: 1, Denied: true}, 30},
		{"at the end of the window", codexWindow, []event{{150, read(whole)}}, 150, true, Result{ExitCode: 1, Denied: true}, 170},
		{"past it", codexWindow, []event{{151, read(whole)}}, 151, true, Result{ExitCode: 1, Denied: true, Late: true}, 171},
		{"however long it took", Window{}, []event{{3_600_000, read(whole)}}, 3_600_000, true, Result{ExitCode: 1, Denied: true}, -1},
		{"a failure", Window{}, []event{{10, read(execproto.ReadResult{Failure: &text})}}, 10, true, Result{ExitCode: -1, Failure: text}, -1},
		{"an exit without a code", Window{}, []event{{10, read(execproto.ReadResult{Exited: true, Closed: true})}}, 10, true, Result{ExitCode: -1}, -1},
	} {
		d := NewDetector(tt.window, start)
		for _, e := range tt.events {
			e.what(d, ms(e.at))
		}
		if got, ok := d.Result(ms(tt.at)); ok != tt.ok || got != tt.want {
			t.Errorf("%s: %+v, %v", tt.name, got, ok)
		}
		want := time.Time{}
		if tt.deadline >= 0 {
			want = ms(tt.deadline)
		}
		if got := d.Deadline(); !got.Equal(want) {
			t.Errorf("%s: deadline %v, not %v", tt.name, got, want)
		}
	}
}
