package detach

import (
	"cmp"
	"os"
	"syscall"
	"time"

	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/host/outputlog"
)

// auditedName is the file of a detached process whose end is in the audit trail.
const auditedName = "audited"

// endInterval is how often a server checks for detached processes that have ended. This is the
// only way to learn of the end of processes that other servers have started.
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

// outcome returns the status of the process, and whether it has a keeper and runs, or has ended. Both
// are false if it was never started.
func (k *Process) outcome() (status outputlog.Status, runs, ended bool) {
	// The keeper writes the status before it ends: the order matters.
	alive := k.Alive()
	status, err := outputlog.ReadStatus(k.root)
	ended = err == nil && (!alive || status.Closed)
	return status, alive && !ended, ended
}

// lastedMS returns how many milliseconds a process with that status has run.
func (k *Process) lastedMS(status *outputlog.Status) int64 {
	return max(0, status.EndedAtMS-k.Record.StartedAtMS)
}

// logEnd logs how a detached process has ended, once, and only if this server has seen it running.
// An end while no server ran is only in the audit trail, because a log record has the time at which
// it is written and not the time of the end.
func (d *Store) logEnd(k *Process) {
	status, runs, ended := k.outcome()
	k.mu.Lock()
	logs := ended && k.ran && !k.logged
	k.ran, k.logged = k.ran || runs, k.logged || logs
	k.mu.Unlock()
	if !logs {
		return
	}
	log := d.Log.With("process", observe.Short(k.Record.ProcessID))
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

// noteEnd records in the trail how a detached process has ended, if it has and that is not
// recorded yet. The mark is set after the record: if a server is killed in between, the end
// is recorded twice, but never missing.
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

// markAudited keeps the end of a process out of the trail from now on. The caller holds
// the lock of auditing.
func (d *Store) markAudited(k *Process) {
	f, err := k.root.OpenFile(auditedName, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		d.Log.Warn("cannot record that the end of a detached process is in the audit trail", "process", observe.Short(k.Record.ProcessID), "error", err)
		return
	}
	_ = f.Close()
}

// setNotStarted keeps the end of a keeper out of log and trail if its process did not start: the
// caller records the failed start instead. A keeper lingers until its servers have closed their
// connections, so this is called before its end.
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

// Called returns how the owner is called in logs and lists.
func (r *Record) Called() string { return cmp.Or(r.Principal, r.Owner) }

// seen describes a detached process for observers, when its session may be over.
func (r *Record) seen() observe.Detached {
	return observe.Detached{Session: observe.Session{Principal: r.Called()}, ID: r.ProcessID}
}
