package observe

import (
	"log/slog"
)

// RefusedConnection is the message of the record of a refused connection.
const RefusedConnection = "connection refused"

// addLog logs the events that an operator needs.
func addLog(ev *Events, log *slog.Logger) {
	ev.ConnectionRefused.Add(func(r Refused) {
		args := []any{"peer", r.Peer, "reason", r.Err}
		if r.Principal != "" {
			args = append(args, "principal", Short(r.Principal))
		}
		log.Warn(RefusedConnection, args...)
	})
	ev.ProcessStarted.Add(func(p *Process) {
		p.Log.Info("process started", "pid", p.PID, "tty", p.TTY, "sandbox", p.Sandbox)
	})
	ev.ProcessStartFailed.Add(func(f StartFailure) { f.Log.Info("process did not start", "error", f.Err) })
	ev.ProcessExited.Add(func(p *Process) {
		if r := p.Exit.Refusal; r != nil {
			p.Log.Warn("sandbox refused, nothing ran", "policy", string(r.Policy), "reason", r.Reason)
		}
	})
	ev.ProcessClosed.Add(func(p *Process) {
		p.Log.Info("process ended", "exit_code", p.Exit.Code, "cause", string(p.Exit.Cause), "duration", p.Exit.Duration,
			"processor_time", p.Exit.Processor, "bytes_in", p.In.Load(), "bytes_out", p.Out.Load())
	})
}
