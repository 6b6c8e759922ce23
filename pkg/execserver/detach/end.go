package detach

import (
	"cmp"
	"os"
	"syscall"
	"time"

	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/host/outputlog"
)

// auditedName is the name of a file. It exists in the directory of a detached process whose end
// is in the audit trail.
const auditedName = "audited"

// endInterval is how often a server checks for detached processes that have ended. The server
// has no other way to notice the end of processes that other servers have started.
const endInterval = 2 * time.Second

// routineEnds logs the ends of detached processes, and records them in the audit trail,
// including those that ended while no server ran.
func (d *Store) routineEnds(stopped <-chan struct{}) {
	ticker := time.NewTicker(endInterval)
	defer ticker.Stop()
	for {
		for _, k := range d.All("") {
			d.logEnd(k)
			d.noteEnd(k)
			d.countSpans(k)
		}
		select {
		case <-ticker.C:
		case <-stopped:
			return
		}
	}
}

// outcome returns the status of the process, whether its keeper and the process run, and
// whether it has ended. runs and ended are both false if the process was never started.
func (k *Process) outcome() (status outputlog.Status, runs, ended bool) {
	// The keeper writes the status before it ends: the order matters.
	alive := k.Alive()
	status, err := outputlog.ReadStatus(k.root)
	ended = err == nil && (!alive || status.Closed)
	return status, alive && !ended, ended
}

// lastedMS returns how many milliseconds a process with the given status has run.
func (k *Process) lastedMS(status *outputlog.Status) int64 {
	return max(0, status.EndedAtMS-k.Record.StartedAtMS)
}

// logEnd logs the end of a detached process once, and only if this server has seen it running.
// If a process ends while no server runs, only the audit trail has its end, because a log
// record has the time of writing and not the time of the end.
func (d *Store) logEnd(k *Process) {
	status, runs, ended := k.outcome()
	k.mu.Lock()
	logs := ended && k.ran && !k.logged
	k.ran, k.logged = k.ran || runs, k.logged || logs
	k.mu.Unlock()
	if !logs {
		return
	}
	log := d.Log.With("process", observe.Short(k.Record.ProcessID), "principal", observe.Short(k.Record.Owner))
	if !status.Closed {
		log.Warn("detached process ended", "reason", lostEnd)
		return
	}
	log.Info("process ended", "exit_code", status.ExitCode, "cause", status.Cause,
		"duration", time.Duration(k.lastedMS(&status))*time.Millisecond, "bytes_in", status.BytesIn, "bytes_out", status.BytesOut)
}

// setRan records that the process runs, so that this server logs its end.
func (k *Process) setRan() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ran = true
}

// noteEnd records the end of a detached process in the trail, if the process has ended and the
// trail does not have its end yet. It sets the mark after it has written the record: if a
// server is killed in between, the trail has the end twice, but it always has it.
func (d *Store) noteEnd(k *Process) {
	if !d.Audited {
		return
	}
	d.auditing.Lock()
	defer d.auditing.Unlock()
	if _, err := k.root.Lstat(auditedName); err == nil {
		return
	}
	status, _, ended := k.outcome()
	if !ended {
		return
	}
	seen := k.Record.seen()
	if status.Closed {
		seen.Cause = status.Cause
		seen.ExitCode, seen.LastedMS, seen.Refusal = status.ExitCode, k.lastedMS(&status), status.Refusal
		seen.In, seen.Out = status.BytesIn, status.BytesOut
	} else {
		seen.ExitCode, seen.Lost = -1, lostEnd
	}
	d.Events.DetachedEnded.Tell(seen)
	d.markAudited(k)
}

// markAudited prevents further records about the end of a process. The caller holds the lock
// auditing.
func (d *Store) markAudited(k *Process) {
	f, err := k.root.OpenFile(auditedName, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		d.Log.Warn("cannot record that the end of a detached process is in the audit trail", "process", observe.Short(k.Record.ProcessID), "error", err)
		return
	}
	_ = f.Close()
}

// setNotStarted prevents records about the end of a process that did not start, in the log and
// in the trail: the caller records the failed start instead. A keeper continues until its
// servers have closed their connections, so the caller must call this before the keeper ends.
func (d *Store) setNotStarted(k *Process) {
	k.mu.Lock()
	k.logged = true
	k.mu.Unlock()
	if d.Audited {
		d.auditing.Lock()
		defer d.auditing.Unlock()
		d.markAudited(k)
	}
}

// Called returns the owner's name for logs and lists.
func (r *Record) Called() string { return cmp.Or(r.Principal, r.Owner) }

// seen describes a detached process for observers. Its session may have ended.
func (r *Record) seen() observe.Detached {
	return observe.Detached{Session: observe.Session{Principal: r.Called()}, ID: r.ProcessID}
}
