package remote

import (
	"errors"
	"fmt"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

// wantedLimits returns the limits of a command: those of the options, and --timeout. The server
// enforces them even if the connection is lost.
func (x *remoteExec) wantedLimits() *execproto.ProcessLimits {
	if x.timeout <= 0 || !x.client.Has(execproto.ExtensionLimits) {
		return x.limits
	}
	l := execproto.ProcessLimits{}
	if x.limits != nil {
		l = *x.limits
	}
	l.WallMS = uint64(max(x.timeout, time.Millisecond).Milliseconds())
	return &l
}

// checkLimits warns of limits that the server does not enforce.
func (a *attempt) checkLimits(p *execclient.Process) {
	l := a.params.Limits
	if l == nil {
		return
	}
	if !a.x.client.Has(execproto.ExtensionLimits) {
		cmdutil.Messagef(a.x.s.Err, "codex: this server does not limit commands; yours runs without the limits that you gave\n")
		return
	}
	for _, h := range p.Limits() {
		if h.By == execproto.HeldByNone {
			cmdutil.Messagef(a.x.s.Err, "codex: the server does not enforce the limit %s: %s\n", h.Name, h.Reason)
		}
	}
}

// exceeded describes the limit that ended a command. It returns "" if no limit did.
func exceeded(cause execproto.Cause) string {
	switch cause {
	case execproto.CauseTimeout:
		return "its time was over"
	case execproto.CauseMemory:
		return "it used more memory than its limit"
	case execproto.CausePIDs:
		return "it wanted more processes than its limit"
	case execproto.CauseCPU:
		return "it used more processor time than its limit"
	case execproto.CauseOutput:
		return "it wrote more output than its limit"
	default:
		return ""
	}
}

// limitError returns the error for a command that a limit has ended, or nil if no limit has. The
// exit code is the command's, except if the time limit ended it.
func (a *attempt) limitError(exitCode int) error {
	switch why := exceeded(a.cause); {
	case a.late.Load(), a.x.timeout > 0 && a.cause == execproto.CauseTimeout:
		return &cmdutil.ExitError{Code: cmdutil.ExitTimeout, Err: fmt.Errorf("the command did not end within --timeout %v and was killed", a.x.timeout)}
	case a.cause == execproto.CauseTimeout:
		return &cmdutil.ExitError{Code: cmdutil.ExitTimeout, Err: fmt.Errorf("the command was killed: the server gives it no more time")}
	case a.cause == execproto.CauseServerStopped:
		return &cmdutil.ExitError{Code: exitCode, Err: errors.New("the command was killed, because the server was shut down")}
	case why != "":
		return &cmdutil.ExitError{Code: exitCode, Err: fmt.Errorf("the command failed: %s", why)}
	default:
		return nil
	}
}

// resourceEvent is an execproto.ProcessResources as --json prints it.
type resourceEvent struct {
	WallMS          uint64  `json:"wallMs"`
	UserMS          uint64  `json:"userMs"`
	SystemMS        uint64  `json:"systemMs"`
	MaxRSSBytes     uint64  `json:"maxRssBytes"`
	PeakMemoryBytes *uint64 `json:"peakMemoryBytes,omitempty"`
	IOReadBytes     *uint64 `json:"ioReadBytes,omitempty"`
	IOWriteBytes    *uint64 `json:"ioWriteBytes,omitempty"`
	Processes       *uint64 `json:"processes,omitempty"`
}

// limitEvent is an execproto.HeldLimit as --json prints it.
type limitEvent struct {
	Name   string `json:"name"`
	Value  uint64 `json:"value"`
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
}

func limitEvents(held []execproto.HeldLimit) []limitEvent {
	var events []limitEvent
	for _, h := range held {
		events = append(events, limitEvent(h))
	}
	return events
}
