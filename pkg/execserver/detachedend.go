//go:build linux || darwin

package execserver

import (
	"os"
	"syscall"
	"time"

	"codex.internal/pkg/execserver/audit"
	"codex.internal/pkg/host/retention"
)

// auditedName is the file of a detached process whose end is in the audit trail.
const auditedName = "audited"

// endInterval is how often a server looks for detached processes that have ended. It learns of
// the end of those that other servers have started in no other way.
const endInterval = 2 * time.Second

// routineEnds logs the ends of detached processes, and writes them into the audit trail, also of
// those that have ended while there was no server.
func (d *detachedStore) routineEnds(stopped <-chan struct{}) {
	ticker := time.NewTicker(endInterval)
	defer ticker.Stop()
	for {
		for _, k := range d.all("") {
			d.logEnd(k)
			d.noteEnd(k)
		}
		select {
		case <-ticker.C:
		case <-stopped:
			return
		}
	}
}

// logEnd logs how a detached process has ended, if it ran when this server looked last. An end
// that no server has seen is in the audit trail alone: the log is about what happens.
func (d *detachedStore) logEnd(k *kept) {
	// The keeper writes the status before it ends: the order matters.
	alive := k.alive()
	status, err := retention.ReadStatus(k.root)
	runs := alive && (err != nil || !status.Closed)
	k.mu.Lock()
	ended := k.ran && !runs && err == nil && !k.logged
	k.ran, k.logged = k.ran || runs, k.logged || ended
	k.mu.Unlock()
	if !ended {
		return
	}
	log := d.log.With("process", shorten(k.record.ProcessID))
	if !status.Closed {
		log.Warn("detached process ended", "reason", lostEnd)
		return
	}
	lasted := time.Duration(max(0, status.EndedAtMS-k.record.StartedAtMS)) * time.Millisecond
	log.Info("process ended", "exit_code", status.ExitCode, "cause", status.Cause, "duration", lasted,
		"bytes_in", status.BytesIn, "bytes_out", status.BytesOut)
}

// setRan notes that this server has started the process, so that it tells its end.
func (k *kept) setRan() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ran = true
}

// noteEnd writes how a detached process has ended, if it has and that is not in the trail
// yet. The mark follows the record: a server that is killed in between leaves an end that is
// there twice, and not one that is missing.
func (d *detachedStore) noteEnd(k *kept) {
	if d.srv.opts.Audit == nil {
		return
	}
	d.auditing.Lock()
	defer d.auditing.Unlock()
	if _, err := k.root.Lstat(auditedName); err == nil {
		return
	}
	// The keeper writes the status before it ends: the order matters.
	alive := k.alive()
	status, err := retention.ReadStatus(k.root)
	if err != nil || alive && !status.Closed {
		return // it was never started, or it runs
	}
	e := audit.Event{Kind: audit.EventProcessEnded, Process: shorten(k.record.ProcessID), Principal: shorten(k.record.Owner)}
	switch {
	case !status.Closed:
		e.ExitCode, e.Reason = new(-1), lostEnd
	default:
		e.ExitCode, e.DurationMS = new(status.ExitCode), max(0, status.EndedAtMS-k.record.StartedAtMS)
		e.BytesIn, e.BytesOut = status.BytesIn, status.BytesOut
		if d.srv.opts.Audit.Paths {
			e.Reason = shorten(status.Refusal) // it may have a path
		}
	}
	d.srv.note(e)
	d.markAudited(k)
}

// markAudited has the end of a process left out of the trail from now on. The caller holds
// the lock of auditing.
func (d *detachedStore) markAudited(k *kept) {
	f, err := k.root.OpenFile(auditedName, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		d.log.Warn("it is not noted that the end of a detached process is in the audit trail", "process", shorten(k.record.ProcessID), "error", err)
		return
	}
	_ = f.Close()
}

// setNotStarted has the end of a keeper whose process did not start left out of log and trail:
// the caller says there that it did not start. A keeper lingers until its servers have closed
// their connections, so that this comes before its end.
func (d *detachedStore) setNotStarted(k *kept) {
	k.mu.Lock()
	k.logged = true
	k.mu.Unlock()
	if d.srv.opts.Audit != nil {
		d.auditing.Lock()
		defer d.auditing.Unlock()
		d.markAudited(k)
	}
}

// noteNotStarted writes that a detached process, of which it was written that it was about to
// be started, was not.
func (d *detachedStore) noteNotStarted(record *keeperRecord, err error) {
	d.srv.note(audit.Event{
		Kind: audit.EventProcessNotRun, Process: shorten(record.ProcessID), Principal: shorten(record.Owner), Reason: d.srv.reasonOf(err),
	})
}
