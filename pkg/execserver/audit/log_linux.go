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
	// Path is the absolute path of the file. The log creates it with mode 0600.
	Path string
	// Stream gets the lines instead of a file; nil: the log writes a file. The log neither
	// reads nor rotates a stream, and writes nothing to it before the first event. Lines have
	// at most MaxStreamRecord bytes.
	Stream *os.File
	// Key signs.
	Key ed25519.PrivateKey
	// MaxBytes is the size after which the log begins a new file; 0: DefaultMaxBytes. It
	// renames the old file: the suffix is the time and the number of the last line.
	MaxBytes int64
	// Continue permits work while the trail cannot be written, for example on a full disk. When
	// it can be written again, the log records the number of missing events.
	Continue bool
	// Logger gets a record when the trail cannot be written; nil: no log.
	Logger *slog.Logger
}

// Log writes a trail. Its methods may be called from any goroutine. Close must be called.
//
// States: open, closed. While open, it is writable or not (broken), and accepts work or not (halted).
type Log struct {
	opts Options

	mu       sync.Mutex
	file     *os.File
	size     int64
	seq      uint64 // number of the last line
	prev     digest // digest of the last line
	unsigned int    // lines since the last signature
	unsynced bool   // a signature may not have reached the disk
	lost     uint64 // events that were dropped since the last written one
	allLost  uint64
	broken   bool // the last write failed
	torn     bool // a partial line that could not be removed may follow size
	closed   bool

	// Changes of the file by other programs.
	away     time.Time // since when the file has another name, but still exists; zero: it is at its path
	change   string    // a change that is not yet recorded; "": none
	tampered uint64    // the number of changes
	halted   string    // the last change, if no SIGHUP has come since; "": none, or work continues

	refused map[refusal]*refused

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
	case opts.Stream != nil:
	case !filepath.IsAbs(opts.Path):
		return nil, fmt.Errorf("audit log %s: the path must be absolute", opts.Path)
	case opts.MaxBytes < LeastMaxBytes:
		return nil, fmt.Errorf("audit log: its size must be at least %d bytes, not %d", LeastMaxBytes, opts.MaxBytes)
	}
	switch {
	case len(opts.Key) != ed25519.PrivateKeySize:
		return nil, errors.New("audit log: no key is given")
	}
	l := &Log{opts: opts, refused: make(map[refusal]*refused), stop: make(chan struct{}), done: make(chan struct{})}
	if opts.Stream != nil {
		l.opts.Path = opts.Stream.Name()
	} else if err := l.open(); err != nil {
		return nil, fmt.Errorf("audit log %s: %w", opts.Path, err)
	}
	go l.routineTend()
	return l, nil
}

// openFile opens the file and locks it.
func (l *Log) openFile() (*os.File, error) {
	f, err := openOwn(l.opts.Path, os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errors.New("another server has it")
		}
		return nil, err
	}
	return f, nil
}

// openOwn opens a file of this user that no other user can change. flag is os.O_CREATE or 0.
func openOwn(path string, flag int) (*os.File, error) {
	f, err := safeopen.Open(path, os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW|flag, 0o600)
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
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// open opens the file and records that it was opened.
func (l *Log) open() error {
	if l.opts.Stream != nil {
		l.file = l.opts.Stream
		return l.write(&record{Event: Event{Kind: EventOpened}})
	}
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

// lineStart is the beginning of every line.
const lineStart = `{"seq":`

// resume finds the last line of the file, and removes the bytes after it. It does not change a
// file that is not a trail.
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
		return 0, errors.New("it contains no line of an audit trail")
	}
	seq, prev := l.seq, l.prev
	if end >= 0 {
		line := tail[bytes.LastIndexByte(tail[:end], '\n')+1 : end]
		r, err := parse(line)
		if err != nil {
			return 0, fmt.Errorf("its last line is not a record of an audit trail: %w", err)
		}
		if l.seq > 0 && r.Seq != l.seq {
			return 0, errors.New("it is not the audit trail that this server has written")
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

// Append writes an event that is about to happen. If it returns an error, the caller must not
// carry out the operation. With Options.Continue it returns nil even if the event could not be
// written. It also fails after another program has changed the file.
func (l *Log) Append(e Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch()
	if l.halted != "" && !l.closed {
		l.setBroken(l.catchUp())
		return fmt.Errorf("the audit log was changed by another program: %s; send SIGHUP to the server to begin a new file", l.halted)
	}
	if err := l.note(e); err != nil && !l.opts.Continue {
		return fmt.Errorf("the audit log cannot be written: %w", err)
	}
	return nil
}

// Note writes an event that can no longer be refused, because it has happened.
func (l *Log) Note(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch()
	_ = l.note(e) // note counts and logs the error
}

// note writes an event, or counts it as lost.
func (l *Log) note(e Event) error {
	err := l.append(e)
	l.setBroken(err)
	return err
}

// setBroken records whether the trail can be written: err is nil if it can. It logs each change
// of that state.
func (l *Log) setBroken(err error) {
	switch {
	case errors.Is(err, ErrClosed):
		return
	case err != nil && !l.broken:
		l.opts.Logger.Error("the audit log cannot be written", "path", l.opts.Path, "work_continues", l.opts.Continue, "error", err)
	case err == nil && l.broken:
		l.opts.Logger.Info("the audit log can be written again", "path", l.opts.Path)
	}
	l.broken = err != nil
}

// Health is the state of a trail.
type Health struct {
	Writable bool   // and no change by another program has stopped work
	Refuses  bool   // Append fails at the moment
	Lost     uint64 // events that could not be written since the log was opened
	Tampered uint64 // changes of the file by other programs
}

// Health returns the state of the trail.
func (l *Log) Health() Health {
	l.mu.Lock()
	defer l.mu.Unlock()
	writable := !l.broken && l.halted == "" && !l.closed
	return Health{Writable: writable, Refuses: !writable && !l.opts.Continue, Lost: l.allLost, Tampered: l.tampered}
}

// append writes an event. Before it, append writes the records that could not be written
// earlier.
func (l *Log) append(e Event) error {
	err := ErrClosed
	if !l.closed {
		err = l.catchUp()
	}
	if err == nil {
		err = l.write(&record{Event: e})
	}
	if err != nil {
		l.lost++
		l.allLost++
		return err
	}
	if l.unsigned < signRecords {
		return nil
	}
	return l.sign()
}

// catchUp opens the file if none is open. It records the last change by another program and the
// number of lost events.
func (l *Log) catchUp() error {
	if l.file == nil {
		if err := l.open(); err != nil {
			return err
		}
	}
	if l.change != "" {
		if err := l.write(&record{Event: Event{Kind: EventTampered, Reason: l.change}}); err != nil {
			return err
		}
		l.change = ""
	}
	if l.lost > 0 {
		if err := l.write(&record{Event: Event{Kind: EventLost, Lost: l.lost}}); err != nil {
			return err
		}
		l.lost = 0
	}
	return nil
}

// write writes a line. If the file is full, it first begins a new one.
func (l *Log) write(r *record) error {
	if l.size >= l.opts.MaxBytes && l.opts.Stream == nil {
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
	limit, before := MaxRecord, ""
	if l.opts.Stream != nil {
		limit = MaxStreamRecord
		if l.torn {
			before = "\n"
		}
	} else if l.torn {
		if err := l.file.Truncate(l.size); err != nil {
			return err
		}
		l.torn = false
	}
	r.Seq, r.Prev = l.seq+1, l.prev.String()
	line, err := r.encode(time.Now(), limit)
	if err != nil {
		return err
	}
	if _, err := l.file.WriteString(before + string(line) + "\n"); err != nil {
		if e := l.file.Truncate(l.size); e != nil {
			l.torn = true
			err = errors.Join(err, e)
		}
		return err
	}
	l.torn = false
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
	if !l.unsynced || l.opts.Stream != nil {
		return nil
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	l.unsynced = false
	return nil
}

// oldName returns the name that a file gets when the log begins a new one.
func (l *Log) oldName() string {
	return fmt.Sprintf("%s.%s-%d", l.opts.Path, time.Now().UTC().Format("20060102T150405Z"), l.seq)
}

// rotate renames the file and begins a new one.
func (l *Log) rotate() error {
	if err := os.Rename(l.opts.Path, l.oldName()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return l.reopen()
}

// release closes the file.
func (l *Log) release() {
	_ = l.file.Close()
	l.file, l.size, l.torn, l.away = nil, 0, false, time.Time{}
}

// reopen closes the file, which now has another name, and opens the file at the path.
func (l *Log) reopen() error {
	l.release()
	return l.open()
}

// Rotate begins a new file. After a change of the previous file, it permits work again. If a
// program such as logrotate has already replaced the file at the path, or the file is missing,
// Rotate only closes the old one. It only signs a stream.
func (l *Log) Rotate() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.watch()
	var err error
	if l.file == nil {
		err = l.catchUp()
	} else {
		err = l.turn()
	}
	if l.setBroken(err); err == nil {
		l.halted = ""
	}
	return err
}

// turn begins a new file in place of the open one.
func (l *Log) turn() error {
	if err := l.sign(); err != nil || l.opts.Stream != nil {
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

// Close signs the unsigned lines and closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.noteRefusals(true)
	l.closed = true
	close(l.stop)
	var err error
	if l.file != nil {
		if err = l.catchUp(); err == nil {
			err = l.sign()
		}
		err = errors.Join(err, l.file.Close())
	}
	l.mu.Unlock()
	<-l.done
	return err
}
