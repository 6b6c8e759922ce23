package audit

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"codex.internal/pkg/host/safeopen"
)

// Options configure a Log.
type Options struct {
	// Path is the file, absolute. It is made with mode 0600.
	Path string
	// Key signs.
	Key ed25519.PrivateKey
	// MaxBytes is the size after which a new file is begun; 0: DefaultMaxBytes. The old
	// file gets the time and the number of its last line as a suffix.
	MaxBytes int64
	// Continue lets work continue when the trail cannot be written, for example on a
	// full disk. The number of missing events is written when that is possible again.
	Continue bool
	// Logger gets a record when the trail cannot be written; nil: no log.
	Logger *slog.Logger
}

// Log writes a trail. Its methods may be called from any goroutine. Close must be called.
//
// States: open, closed. While open, it is writable or not (broken).
type Log struct {
	opts Options

	mu       sync.Mutex
	file     *os.File
	size     int64
	seq      uint64 // of the last line
	prev     digest // of the last line
	unsigned int    // lines since the last signature
	unsynced bool   // a signature may not have reached the disk
	lost     uint64 // events since the last one that was written
	allLost  uint64
	broken   bool // the last write failed
	torn     bool // a partial line that could not be removed may follow size
	closed   bool

	stop chan struct{}
	done chan struct{}
}

// ErrClosed is the error of an event after Close.
var ErrClosed = errors.New("the audit trail is closed")

// Open opens a trail, or creates it. An existing trail is appended to; an incomplete last
// line is removed, and the removal is recorded. Only one Log can use a file at a time.
func Open(opts Options) (*Log, error) {
	opts.MaxBytes = cmp.Or(opts.MaxBytes, DefaultMaxBytes)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case !filepath.IsAbs(opts.Path):
		return nil, fmt.Errorf("audit log %s: the path must be absolute", opts.Path)
	case opts.MaxBytes < LeastMaxBytes:
		return nil, fmt.Errorf("audit log: its size must be at least %d bytes, not %d", LeastMaxBytes, opts.MaxBytes)
	case len(opts.Key) != ed25519.PrivateKeySize:
		return nil, errors.New("audit log: there is no key")
	}
	l := &Log{opts: opts, stop: make(chan struct{}), done: make(chan struct{})}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("audit log %s: %w", opts.Path, err)
	}
	go l.routineSign()
	return l, nil
}

// openFile opens the file and locks it.
func (l *Log) openFile() (*os.File, error) {
	f, err := safeopen.Open(l.opts.Path, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	const others = 0o022
	info, err := f.Stat()
	if err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
			err = errors.New("it belongs to another user")
		} else if info.Mode()&others != 0 {
			err = errors.New("other users can change it")
		}
	}
	if err == nil {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
			err = errors.New("another server has it")
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// open opens the file and writes that it did.
func (l *Log) open() error {
	f, err := l.openFile()
	if err != nil {
		return err
	}
	l.file = f
	dropped, err := l.resume()
	if err == nil && dropped > 0 {
		err = l.write(&record{Event: Event{Kind: EventRecovered, Dropped: dropped}})
	}
	if err == nil {
		err = l.write(&record{Event: Event{Kind: EventOpened}})
	}
	if err != nil {
		_ = f.Close()
		l.file = nil
	}
	return err
}

// lineStart is how every line begins.
const lineStart = `{"seq":`

// resume finds the last line of the file, and removes the bytes after it. A file that is
// not a trail stays as it is.
func (l *Log) resume() (dropped int64, err error) {
	info, err := l.file.Stat()
	if err != nil || info.Size() == 0 {
		return 0, err
	}
	from := max(0, info.Size()-2*(MaxRecord+1))
	tail := make([]byte, info.Size()-from)
	if _, err := io.ReadFull(io.NewSectionReader(l.file, from, info.Size()-from), tail); err != nil {
		return 0, err
	}
	end := bytes.LastIndexByte(tail, '\n')
	// After a power failure the file may contain zeros in place of written data.
	cut := bytes.HasPrefix(tail, []byte(lineStart)) || len(bytes.TrimLeft(tail, "\x00")) == 0
	if end < 0 && (from > 0 || !cut) {
		return 0, errors.New("it has no line of an audit trail")
	}
	seq, prev := l.seq, l.prev
	if end >= 0 {
		line := tail[bytes.LastIndexByte(tail[:end], '\n')+1 : end]
		r, err := parse(line)
		if err != nil {
			return 0, fmt.Errorf("its last line is no record of an audit trail: %w", err)
		}
		if l.seq > 0 && r.Seq != l.seq {
			return 0, errors.New("it is another audit trail than the one that was written here")
		}
		seq, prev = r.Seq, sha256.Sum256(line)
	}
	size := from + int64(end) + 1
	if dropped = info.Size() - size; dropped > 0 {
		if err := l.file.Truncate(size); err != nil {
			return 0, err
		}
	}
	l.size, l.seq, l.prev, l.torn = size, seq, prev, false
	return dropped, nil
}

// Append writes an event. With Options.Continue it returns nil if that fails, and the event
// is counted as lost. If it returns an error, the caller must not carry out the operation.
func (l *Log) Append(e Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.append(e)
	if err == nil {
		return nil
	}
	l.setBroken(err)
	if l.opts.Continue {
		l.lost++
		l.allLost++
		return nil
	}
	return fmt.Errorf("the audit log cannot be written: %w", err)
}

// setBroken records that the trail cannot be written, and logs it if that is new.
func (l *Log) setBroken(err error) {
	if !l.broken {
		l.opts.Logger.Error("the audit log cannot be written", "path", l.opts.Path, "work_continues", l.opts.Continue, "error", err)
	}
	l.broken = true
}

// Note writes an event that can no longer be refused, because it has happened. If that
// fails, it is counted as lost.
func (l *Log) Note(e Event) {
	if l.Append(e) != nil {
		l.mu.Lock()
		l.lost++
		l.allLost++
		l.mu.Unlock()
	}
}

// Lost returns how many events could not be written since the log was opened.
func (l *Log) Lost() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.allLost
}

// append writes an event, and before it how many were lost.
func (l *Log) append(e Event) error {
	if l.closed {
		return ErrClosed
	}
	if l.file == nil {
		if err := l.open(); err != nil {
			return err
		}
	}
	if l.lost > 0 {
		if err := l.write(&record{Event: Event{Kind: EventLost, Lost: l.lost}}); err != nil {
			return err
		}
		l.lost = 0
	}
	if err := l.write(&record{Event: e}); err != nil {
		return err
	}
	if l.broken {
		l.opts.Logger.Info("the audit log can be written again", "path", l.opts.Path)
		l.broken = false
	}
	if l.unsigned < signRecords {
		return nil
	}
	err := l.sign()
	if err != nil && l.opts.Continue { // the event itself is in the trail
		l.setBroken(err)
		return nil
	}
	return err
}

// write writes a line, to another file if this one is full.
func (l *Log) write(r *record) error {
	if l.size >= l.opts.MaxBytes {
		if err := l.sign(); err != nil {
			return err
		}
		if err := l.rotate(); err != nil {
			return err
		}
	}
	return l.put(r)
}

// put writes a line to the file. A partial line is removed; until that succeeds, no
// other line is written.
func (l *Log) put(r *record) error {
	if l.torn {
		if err := l.file.Truncate(l.size); err != nil {
			return err
		}
		l.torn = false
	}
	r.Seq, r.Prev = l.seq+1, l.prev.String()
	line, err := r.encode(time.Now())
	if err != nil {
		return err
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		if e := l.file.Truncate(l.size); e != nil {
			l.torn = true
			err = errors.Join(err, e)
		}
		return err
	}
	l.size += int64(len(line)) + 1
	l.seq, l.prev = r.Seq, sha256.Sum256(line)
	l.unsigned++
	return nil
}

// sign writes a signature, unless there are no new lines, and flushes the file to the disk.
func (l *Log) sign() error {
	if l.unsigned > 0 {
		public, _ := l.opts.Key.Public().(ed25519.PublicKey)
		r := &record{
			Seq: l.seq + 1, Time: time.Now().UTC().Format(timeFormat), Event: Event{Kind: EventSignature},
			Key: base64.StdEncoding.EncodeToString(public), Prev: l.prev.String(),
		}
		err := r.sign(l.opts.Key)
		if err == nil {
			err = l.put(r)
		}
		if err != nil {
			return err
		}
		l.unsigned, l.unsynced = 0, true
	}
	if !l.unsynced {
		return nil
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	l.unsynced = false
	return nil
}

// rotate renames the file and begins another one.
func (l *Log) rotate() error {
	old := fmt.Sprintf("%s.%s-%d", l.opts.Path, time.Now().UTC().Format("20060102T150405Z"), l.seq)
	if err := os.Rename(l.opts.Path, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return l.reopen()
}

// reopen closes the file, which has another name now, and opens the one at the path.
func (l *Log) reopen() error {
	_ = l.file.Close()
	l.file, l.size, l.torn = nil, 0, false
	return l.open()
}

// Rotate begins a new file. If the file at the path has already been replaced, for
// example by a program such as logrotate, or is missing, the old one is only closed.
func (l *Log) Rotate() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	if l.file == nil {
		return l.open()
	}
	if err := l.sign(); err != nil {
		return err
	}
	at, err := os.Lstat(l.opts.Path)
	ours, err2 := l.file.Stat()
	switch {
	case err2 != nil:
		return err2
	case errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(at, ours):
		return l.reopen()
	case err != nil:
		return err
	}
	return l.rotate()
}

// routineSign signs at intervals, until Close.
func (l *Log) routineSign() {
	defer close(l.done)
	tick := time.NewTicker(signInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.mu.Lock()
			if l.file != nil && !l.closed {
				if err := l.sign(); err != nil {
					l.setBroken(err)
				}
			}
			l.mu.Unlock()
		case <-l.stop:
			return
		}
	}
}

// Close signs the unsigned lines and closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.stop)
	var err error
	if l.file != nil {
		if l.lost > 0 {
			err = l.write(&record{Event: Event{Kind: EventLost, Lost: l.lost}})
		}
		if err == nil {
			err = l.sign()
		}
		err = errors.Join(err, l.file.Close())
	}
	l.mu.Unlock()
	<-l.done
	return err
}
