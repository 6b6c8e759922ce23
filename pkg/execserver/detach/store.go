package detach

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/tracing"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/host/outputlog"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/host/safeopen"
	"golang.org/x/sys/unix"
	"strings"
)

// The files of a detached process in its directory.
const (
	recordName = "record.json"
	lockName   = "lock"
	socketName = "socket"
	stderrName = "keeper.log"
)

// keeperFormat is the version of the record, of the files and of the protocol between server
// and keeper. A server uses keepers of its own format, even if another version of the program
// runs in them.
const keeperFormat = 1

// Record is what a server stores about a detached process before it starts the keeper.
type Record struct {
	Format      int      `json:"format"`
	Version     string   `json:"version"` // version of the program
	Owner       string   `json:"owner"`
	Principal   string   `json:"principal,omitempty"` // the owner's name in logs and lists, if it is not Owner
	ProcessID   string   `json:"processId"`
	StartID     string   `json:"startId"`
	Argv        []string `json:"argv"`
	Cwd         string   `json:"cwd"`
	TTY         bool     `json:"tty"`
	StartedAtMS int64    `json:"startedAtMs"`
	Retain      Retain   `json:"retain"`
	// Ceiling is the client's ceiling. The keeper enforces it, too.
	Ceiling wsauth.Ceiling `json:"ceiling,omitzero"`
	// Traceparent and Tracestate name the span that the process belongs to, if it is traced.
	Traceparent string `json:"traceparent,omitempty"`
	Tracestate  string `json:"tracestate,omitempty"`
	// Secret authenticates a server to the keeper.
	Secret string `json:"secret"`
}

type Retain struct {
	Bytes    int64  `json:"bytes"`
	Seconds  int64  `json:"seconds"`
	WhenFull string `json:"whenFull"`
}

func (r Retain) wire() execproto.Retain {
	return execproto.Retain{Bytes: uint64(r.Bytes), Seconds: uint64(r.Seconds), WhenFull: execproto.WhenFull(r.WhenFull)}
}

// SetTrace makes the keeper of a process continue a trace.
func (r *Record) SetTrace(trace tracing.Context) {
	if trace.IsValid() {
		r.Traceparent, r.Tracestate = trace.Traceparent(), trace.State
	}
}

// parseRecord parses the content of a record.
func parseRecord(text []byte) (Record, error) {
	var r Record
	if len(text) > maxRecord {
		return r, fmt.Errorf("the record has more than %d bytes", maxRecord)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("the record: %w", err)
	}
	if r.Format != keeperFormat {
		return r, fmt.Errorf("the record has format %d, but this program supports only %d", r.Format, keeperFormat)
	}
	if r.Owner == "" || checkHandle(r.ProcessID) != nil || len(r.Secret) < 2*secretBytes || r.Retain.Seconds < 0 {
		return r, errors.New("the record lacks a required member")
	}
	return r, nil
}

// Options configure where detached processes are retained, for how long, and how keepers are
// started.
type Options struct {
	Dir string // absolute and clean; created if it does not exist
	// Bytes bounds the retained output of all processes together. DefaultBytes bounds the
	// output of a process whose start sets no bound. For is how long output is retained after
	// the end of its process.
	Bytes, DefaultBytes int64
	For                 time.Duration
	// Max is how many processes an owner may have, including ended ones that are retained.
	Max int
	// HasWhole reports whether an owner may use all free resources, and not only its share
	// (pkg/execserver/share).
	HasWhole func(owner string) bool

	// Command is the command of a keeper, WorkDir its working directory, and Settings the JSON
	// that the keeper reads from its standard input.
	Command    []string
	WorkDir    string
	Settings   func() any
	Version    string // version of the program
	Supervisor *process.Supervisor

	Events *observe.Events
	Log    *slog.Logger
	// Audited means that there is an audit trail, and Traced that spans are exported.
	Audited, Traced bool
	// Blocking calls f when few enough calls run that access files. Such calls may hang.
	Blocking func(ctx context.Context, f func() error) error
}

// Store is the directory with the server's detached processes. Each process has its own
// directory below it, whose name is a digest of owner and id: creating it reserves the id, even
// if several servers use the Store. The disk has the authoritative state; the map only contains
// open processes. All methods may be called from any goroutine, and Close and Directory also on
// a nil Store.
type Store struct {
	Options

	mu   sync.Mutex
	root *os.Root // nil: not opened yet
	open map[string]*Process

	auditing sync.Mutex // held while an end is recorded in the audit trail
}

// NewStore returns a store. The caller must run its routine Run.
func NewStore(o Options) *Store { return &Store{Options: o, open: make(map[string]*Process)} }

// Run removes processes whose retention has ended, and reports the ends of processes. It
// returns when stopped is closed.
func (d *Store) Run(stopped <-chan struct{}) {
	var wg sync.WaitGroup
	wg.Go(func() { d.routineExpire(stopped) })
	wg.Go(func() { d.routineEnds(stopped) })
	wg.Wait()
}

// Process is one detached process.
type Process struct {
	store  *Store
	name   string // name of its directory
	root   *os.Root
	dir    *os.File // the same directory
	Record Record

	mu     sync.Mutex
	client *execclient.Client // nil: not connected, or the connection has failed
	log    *outputlog.Log     // nil: the process has not ended, or was not read since its end
	closed bool
	ran    bool   // this server has seen it running, and logs its end
	logged bool   // its end was logged, or must not be
	writer Writer // the session that wrote last; nil: none has
}

// directoryName returns the name of the directory of a process.
func directoryName(owner, id string) string {
	digest := sha256.Sum256([]byte(owner + "\x00" + id))
	return hex.EncodeToString(digest[:16])
}

// openBelow opens a directory that belongs to this user, that no other user can enter, and
// whose path has no link.
func openBelow(root *os.Root, name string) (*os.Root, error) {
	link, err := root.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case link.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("%s is a link", name)
	case !link.IsDir(): // opening a FIFO would wait for a writer
		return nil, fmt.Errorf("%s is not a directory", name)
	}
	opened, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	info, err := opened.Stat(".")
	switch {
	case err != nil:
	case !os.SameFile(info, link):
		err = fmt.Errorf("%s was exchanged", name)
	default:
		err = safeopen.CheckOwn(name, info, 0o700)
	}
	if err != nil {
		_ = opened.Close()
		return nil, err
	}
	return opened, nil
}

// base opens the directory, and creates it if create is true. Otherwise a missing directory is
// fs.ErrNotExist. The caller holds the lock.
func (d *Store) base(create bool) (*os.Root, error) {
	if d.root != nil {
		return d.root, nil
	}
	root, err := safeopen.PrivateDir(d.Dir, create)
	if err == nil {
		d.root = root
	}
	return root, err
}

// Directory returns the path of the directory, and creates it if needed; "": there is none.
func (d *Store) Directory() string {
	if d == nil {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, _ = d.base(true) // a directory that could not be created need not be hidden
	return d.Dir
}

// Find returns an owner's process of that id.
func (d *Store) Find(owner, id string) (*Process, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k, err := d.get(directoryName(owner, id))
	if err == nil && (k.Record.Owner != owner || k.Record.ProcessID != id) {
		err = errors.New("the record belongs to another process")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, execproto.UnknownProcess(id)
	}
	if err != nil {
		d.Log.Warn("a detached process is ignored", "process", observe.Short(id), "error", err)
		return nil, execproto.UnknownProcess(id)
	}
	return k, nil
}

// get opens the process in a directory. The caller holds the lock.
func (d *Store) get(name string) (*Process, error) {
	if k := d.open[name]; k != nil {
		now, err := d.root.Lstat(name)
		if was, e := k.dir.Stat(); err == nil && e == nil && os.SameFile(now, was) {
			return k, nil
		}
		k.Close() // another server has removed it
		delete(d.open, name)
	}
	base, err := d.base(false)
	if err != nil {
		return nil, err
	}
	root, err := openBelow(base, name)
	if err != nil {
		return nil, err
	}
	record, err := readRecord(root)
	if err == nil && directoryName(record.Owner, record.ProcessID) != name {
		err = errors.New("the record belongs to another directory")
	}
	var dir *os.File
	if err == nil {
		dir, err = root.Open(".")
	}
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	k := &Process{store: d, name: name, root: root, dir: dir, Record: record}
	d.open[name] = k
	return k, nil
}

// readRecord reads the record of a directory.
func readRecord(root *os.Root) (Record, error) {
	f, err := root.OpenFile(recordName, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return Record{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = safeopen.CheckOwn(recordName, info, 0o600)
	}
	// A Root follows links within itself.
	if link, e := root.Lstat(recordName); err == nil && (e != nil || !os.SameFile(info, link) || !info.Mode().IsRegular()) {
		err = errors.New("the record is not a regular file")
	}
	if err != nil {
		return Record{}, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err != nil {
		return Record{}, err
	}
	return parseRecord(text)
}

// All removes processes whose retention time has passed, and returns the other processes of an
// owner ("": of all owners), the oldest first.
func (d *Store) All(owner string) []*Process {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []*Process
	for _, name := range d.names() {
		k, err := d.get(name)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				d.Log.Debug("a directory is ignored", "directory", name, "error", err)
			}
			continue
		}
		if k.expired(time.Now()) {
			d.removeLocked(k)
			continue
		}
		if owner == "" || k.Record.Owner == owner {
			found = append(found, k)
		}
	}
	sortByStart(found)
	return found
}

// names lists the directory.
func (d *Store) names() []string {
	base, err := d.base(false)
	if err != nil {
		return nil
	}
	dir, err := base.Open(".")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxStoreEntries)
	return names
}

// Alive reports whether the keeper of the process runs. A keeper holds a lock while it runs.
func (k *Process) Alive() bool {
	f, err := k.root.OpenFile(lockName, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// expired reports whether the process has ended and its retention time has passed.
func (k *Process) expired(now time.Time) bool {
	if k.Alive() {
		return false
	}
	info, err := k.root.Lstat("status")
	if errors.Is(err, fs.ErrNotExist) {
		// The process was never started. Its server may be about to start it.
		info, err = k.root.Lstat(recordName)
		return err == nil && now.Sub(info.ModTime()) > keeperStartTime
	}
	return err == nil && now.Sub(info.ModTime()) > time.Duration(k.Record.Retain.Seconds)*time.Second
}

// remove removes a process that has ended, with its output.
func (s *Store) remove(k *Process) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.removeLocked(k)
}

func (s *Store) removeLocked(k *Process) error {
	s.logEnd(k)
	s.noteEnd(k)
	s.countSpans(k)
	k.Close()
	delete(s.open, k.name)
	root := s.root
	if root == nil { // closed: the server ends while it starts a process
		var err error
		if root, err = safeopen.PrivateDir(s.Dir, false); err != nil {
			return execproto.Internal("open the directory of detached processes: " + err.Error())
		}
		defer root.Close()
	}
	if err := root.RemoveAll(k.name); err != nil {
		return execproto.Internal("remove the files of a detached process: " + err.Error())
	}
	return nil
}

// Close releases the resources for the process, which continues.
func (k *Process) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	k.closed = true
	if k.client != nil {
		_ = k.client.Close()
		k.client = nil
	}
	_ = k.dir.Close()
	_ = k.root.Close()
}

// Close releases the resources for all processes.
func (d *Store) Close() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, k := range d.open {
		k.Close()
		delete(d.open, name)
	}
	if d.root != nil {
		_ = d.root.Close()
		d.root = nil
	}
}

// newSecret returns the secret of a keeper.
func newSecret() string {
	var b [secretBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// checkHandle checks the id of a detached process that is to be started.
func checkHandle(id string) error {
	name, ok := strings.CutPrefix(id, execproto.DetachedPrefix)
	good := ok && len(name) > 0 && len(name) <= execproto.MaxHandleName
	for i, r := range name {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		good = good && (letter || i > 0 && strings.ContainsRune("._-", r))
	}
	if !good {
		return execproto.InvalidParams(fmt.Sprintf("processId of a detached process must be %sNAME, with a NAME of 1 to %d letters, digits, dots, hyphens and underscores that begins with a letter or digit, not `%s`",
			execproto.DetachedPrefix, execproto.MaxHandleName, observe.Short(id)))
	}
	return nil
}

// Count returns how many processes are retained, including running ones.
func (d *Store) Count() int { return len(d.names()) }
