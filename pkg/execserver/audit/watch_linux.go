package audit

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// watch closes the file if another program has changed it: the next record begins a new file,
// and the changed file remains as evidence.
func (l *Log) watch() {
	if l.file == nil || l.closed || l.opts.Stream != nil {
		return
	}
	change, atPath := l.look()
	if change == "" {
		return
	}
	l.opts.Logger.Error("another program has changed the audit log", "path", l.opts.Path, "change", change, "work_continues", l.opts.Continue)
	l.change = change
	l.tampered++
	if !l.opts.Continue {
		l.halted = change
	}
	if atPath {
		_ = os.Rename(l.opts.Path, l.oldName()) // if Rename fails, opening the file fails too, because its last line has changed
	} else {
		_ = l.sign() // the file may be intact, under another name
	}
	l.release()
}

// look returns the change that another program has made to the file, if any, and whether the
// file is still at its path. For awayTime, look tolerates another name: logrotate renames the
// file before it sends SIGHUP.
func (l *Log) look() (change string, atPath bool) {
	ours, err := l.file.Stat()
	if err != nil {
		return "", false // writing fails, too
	}
	st, ok := ours.Sys().(*syscall.Stat_t)
	if !ok || !ours.Mode().IsRegular() {
		return "", false
	}
	there, err := os.Lstat(l.opts.Path)
	atPath = err == nil && os.SameFile(there, ours)
	if atPath {
		l.away = time.Time{}
	}
	switch {
	case ours.Size() < l.size:
		change = fmt.Sprintf("it was truncated from %d to %d bytes", l.size, ours.Size())
	case ours.Size() > l.size && !l.torn:
		change = fmt.Sprintf("it has %d bytes that this server did not write", ours.Size()-l.size)
	case atPath:
	case st.Nlink == 0 && err == nil:
		change = "another file has taken its place"
	case st.Nlink == 0:
		change = "it was removed"
	case l.away.IsZero():
		l.away = time.Now()
	case time.Since(l.away) >= awayTime:
		change = "it was renamed, and no SIGHUP came"
	}
	return change, atPath
}

// routineTend signs the trail at intervals, checks the file for changes, and writes the records
// that could not be written earlier. It returns after Close.
func (l *Log) routineTend() {
	defer close(l.done)
	tick := time.NewTicker(signInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.mu.Lock()
			l.tend()
			l.mu.Unlock()
		case <-l.stop:
			return
		}
	}
}

// tend does one round of routineTend.
func (l *Log) tend() {
	if l.closed {
		return
	}
	l.watch()
	l.noteRefusals(false)
	if l.file == nil && l.change == "" && l.lost == 0 && !l.broken {
		return // nothing was written to the stream yet
	}
	err := l.catchUp()
	if err == nil {
		err = l.sign()
	}
	l.setBroken(err)
}
