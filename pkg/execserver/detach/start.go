package detach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/share"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/host/outputlog"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/internal/wait"
	"golang.org/x/sys/unix"
)

// encodeSettings encodes the settings that a keeper reads from its standard input.
func encodeSettings(settings any) ([]byte, error) {
	text, err := json.Marshal(settings)
	if err == nil && len(text) > maxSettings {
		err = fmt.Errorf("the settings of keepers, most of which are hidden paths, have %d bytes, and at most %d are allowed", len(text), maxSettings)
	}
	return text, err
}

// sortByStart sorts processes by their starts.
func sortByStart(list []*Process) {
	slices.SortStableFunc(list, func(a, b *Process) int {
		switch {
		case a.Record.StartedAtMS < b.Record.StartedAtMS:
			return -1
		case a.Record.StartedAtMS > b.Record.StartedAtMS:
			return 1
		}
		return 0
	})
}

// NewRecord checks the process/start of a detached process by a client with the given grant,
// and returns the record of the process.
func (d *Store) NewRecord(owner string, grant wsauth.Grant, p *execproto.StartParams) (*Record, error) {
	if err := checkHandle(p.ProcessID); err != nil {
		return nil, err
	}
	switch {
	case p.Detach.StartID == "" || len(p.Detach.StartID) > execproto.MaxStartID:
		return nil, execproto.InvalidParams(fmt.Sprintf("startId of a detached process must have 1 to %d bytes", execproto.MaxStartID))
	case p.NetworkProxy != nil:
		// The proxy would run in the keeper, which does not know the ports of later servers.
		// Through the proxy, a sandboxed command could connect to these servers as their user.
		return nil, execproto.InvalidParams("a detached process cannot have a network proxy")
	}
	retain, err := d.retainOf(p.Retain)
	return &Record{
		Format: keeperFormat, Version: d.Version, Owner: owner, ProcessID: p.ProcessID, StartID: p.Detach.StartID,
		Argv: p.Argv, Cwd: p.Cwd, TTY: p.TTY, StartedAtMS: time.Now().UnixMilli(), Retain: retain, Secret: newSecret(),
		Ceiling: grant.Ceiling, Principal: grant.Principal,
	}, err
}

// retainOf returns the effective retain settings of a process/start.
func (d *Store) retainOf(p *execproto.Retain) (Retain, error) {
	r := Retain{
		Bytes: min(d.DefaultBytes, d.Bytes), Seconds: int64(d.For / time.Second),
		WhenFull: string(execproto.WhenFullDropOldest),
	}
	if p == nil {
		return r, nil
	}
	switch {
	case p.Bytes > uint64(d.Bytes):
		return r, execproto.InvalidParams(fmt.Sprintf("this server retains at most %d bytes of output of all detached processes together (--retain-bytes), and %d were asked for", d.Bytes, p.Bytes))
	case p.Bytes != 0 && p.Bytes < outputlog.MinBytes:
		return r, execproto.InvalidParams(fmt.Sprintf("at least %d bytes of a detached process's output are retained, and %d were asked for", outputlog.MinBytes, p.Bytes))
	case p.Seconds > uint64(r.Seconds):
		return r, execproto.InvalidParams(fmt.Sprintf("this server retains output for at most %d seconds after a detached process has ended (--retain-for), and %d were asked for", r.Seconds, p.Seconds))
	}
	if p.Bytes != 0 {
		r.Bytes = int64(p.Bytes)
	}
	if p.Seconds != 0 {
		r.Seconds = int64(p.Seconds)
	}
	if p.WhenFull != "" {
		r.WhenFull = string(p.WhenFull)
	}
	return r, nil
}

// Start starts a keeper, which starts the process. The start continues if the client loses its
// connection. It ends with ctx or after startTime.
func (d *Store) Start(ctx context.Context, record Record, params *execproto.StartParams) (execproto.StartResult, error) {
	ctx, cancel := context.WithTimeout(ctx, keeperStartTime)
	defer cancel()
	started, err := d.start(ctx, record, params)
	if err != nil {
		seen := record.seen()
		seen.Err = err
		d.Events.DetachedStartFailed.Tell(seen)
	}
	return started, err
}

func (d *Store) start(ctx context.Context, record Record, params *execproto.StartParams) (none execproto.StartResult, err error) {
	k, lock, err := d.reserve(record)
	if errors.Is(err, fs.ErrExist) {
		return d.repeated(ctx, record)
	}
	if err != nil {
		return none, err
	}
	pid, err := d.spawn(k, lock)
	_ = lock.Close() // the keeper holds the lock
	log := d.Log.With("process", observe.Short(record.ProcessID), "principal", observe.Short(record.Owner))
	if err == nil {
		var started execproto.StartResult
		own := *params
		own.OutputWindow, own.Retain = 0, new(record.Retain.wire())
		if err = k.callStarting(ctx, &own, &started); err == nil {
			k.setRan()
			log.Info("detached process started", "keeper", pid, "sandbox", started.SandboxType)
			return started, nil
		}
	}
	log.Info("detached process did not start", "error", err)
	d.setNotStarted(k)
	k.disconnect()
	k.awaitEnd(ctx)
	_ = d.remove(k)
	return none, err
}

// callStarting sends the start to a keeper that may not listen yet.
func (k *Process) callStarting(ctx context.Context, params *execproto.StartParams, started *execproto.StartResult) error {
	for {
		if _, err := k.connect(ctx); err == nil || ctx.Err() != nil {
			break
		}
		if !k.Alive() {
			return k.failed("the keeper of the process could not start")
		}
		if err := wait.For(ctx, keeperPause/4); err != nil {
			return execproto.Internal("the keeper of the process did not start in time")
		}
	}
	err := k.Call(ctx, execproto.MethodProcessStart, params, started)
	if errors.Is(err, ErrEnded) {
		return k.failed("the keeper of the process ended while it started the process")
	}
	return err
}

// failed returns the error of a keeper that has ended. The error has the beginning of the
// keeper's output.
func (k *Process) failed(what string) error {
	f, err := k.root.OpenFile(stderrName, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return execproto.Internal(what)
	}
	defer f.Close()
	const most = 300
	b := make([]byte, most)
	n, _ := f.Read(b)
	if n <= 0 {
		return execproto.Internal(what)
	}
	return execproto.Internal(what + ": " + string(b[:n]))
}

// repeated answers a start whose id is in use.
func (d *Store) repeated(ctx context.Context, record Record) (none execproto.StartResult, err error) {
	for {
		k, err := d.Find(record.Owner, record.ProcessID)
		if err != nil || k.Record.StartID != record.StartID {
			return none, execproto.ProcessExists(observe.Short(record.ProcessID))
		}
		if _, err := k.root.Lstat("status"); err == nil {
			return execproto.StartResult{ProcessID: record.ProcessID}, nil
		}
		if !k.Alive() {
			return none, execproto.Internal("the server ended while it started the process; start it under another name")
		}
		if err := wait.For(ctx, keeperPause); err != nil {
			return none, execproto.ProcessStarting(observe.Short(record.ProcessID))
		}
	}
}

// reserve creates the directory of a process, and takes the lock that its keeper will hold. The
// error is fs.ErrExist if the owner already has a process with that id.
func (d *Store) reserve(record Record) (*Process, *os.File, error) {
	if err := d.checkLimits(record); err != nil {
		return nil, nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	base, err := d.base(true)
	if err != nil {
		return nil, nil, execproto.Internal("the directory for detached processes (--retain-dir): " + err.Error())
	}
	name := directoryName(record.Owner, record.ProcessID)
	if err := base.Mkdir(name, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, nil, fs.ErrExist
		}
		return nil, nil, execproto.Internal(err.Error())
	}
	lock, err := fill(base, name, record)
	var k *Process
	if err == nil {
		k, err = d.get(name)
	}
	if err != nil {
		if lock != nil {
			_ = lock.Close()
		}
		_ = base.RemoveAll(name)
		return nil, nil, execproto.Internal("make the directory of a detached process: " + err.Error())
	}
	return k, lock, nil
}

// fill writes the files that a keeper needs into its directory. It returns the lock, which it
// has taken.
func fill(base *os.Root, name string, record Record) (*os.File, error) {
	text, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	if len(text) > maxRecord {
		return nil, fmt.Errorf("the command line has more than %d bytes", maxRecord)
	}
	const flags = os.O_RDWR | os.O_CREATE | os.O_EXCL | syscall.O_NOFOLLOW
	lock, err := base.OpenFile(name+"/"+lockName, flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return lock, err
	}
	f, err := base.OpenFile(name+"/"+recordName, flags, 0o600)
	if err != nil {
		return lock, err
	}
	_, err = f.Write(text)
	return lock, errors.Join(err, f.Close())
}

// checkLimits returns an error if there are too many processes, or if their retained output is
// too large in total.
func (d *Store) checkLimits(record Record) error {
	all := d.All("")
	var own, ownBytes, bytes int64
	for _, k := range all {
		bytes += k.Record.Retain.Bytes
		if k.Record.Called() == record.Called() { // a client with one token can have any number of keys
			own++
			ownBytes += k.Record.Retain.Bytes
		}
	}
	whole, retain := d.HasWhole(record.Called()), record.Retain.Bytes
	full := func(text string) error { return observe.AtLimit(observe.LimitDetached, execproto.Internal(text)) }
	switch {
	case own >= int64(d.Max):
		return full(fmt.Sprintf("at most %d detached processes may be kept for one owner, also ended ones; forget some or raise --max-detached", d.Max))
	case !share.Fits(maxKeepers, int64(len(all)), own, 1, whole):
		return full(fmt.Sprintf("at most %d detached processes may be kept for all owners, of which there are %d, %d of them this client's; forget some", maxKeepers, len(all), own))
	case !share.Fits(d.Bytes, bytes, ownBytes, retain, whole):
		return full(fmt.Sprintf("detached processes may retain %d bytes together. They retain up to %d, of which this client's retain up to %d, and this one asks for %d; ask for less, forget some or raise --retain-bytes", d.Bytes, bytes, ownBytes, retain))
	}
	return nil
}

// spawn starts the keeper of a process.
func (d *Store) spawn(k *Process, lock *os.File) (pid int, err error) {
	fail := func(err error) (int, error) {
		return 0, observe.AtShortage(err, execproto.Internal("start the keeper of the process: "+err.Error()))
	}
	settings, err := encodeSettings(d.Settings())
	if err != nil {
		return fail(err)
	}
	stderr, err := k.root.OpenFile(stderrName, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fail(err)
	}
	defer stderr.Close()
	in, out, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	defer in.Close()
	// The settings fit into the pipe: see maxSettings.
	_, err = out.Write(settings)
	_ = out.Close()
	if err != nil {
		return fail(err)
	}
	pid, err = d.Supervisor.StartKeeper(process.Spec{
		Argv: d.Command, Dir: d.WorkDir, Env: os.Environ(), ExtraFiles: []*os.File{k.dir, lock},
	}, in, stderr)
	if err != nil {
		return fail(err)
	}
	return pid, nil
}

// routineExpire removes the files of ended processes when their retention time has passed.
func (d *Store) routineExpire(stopped <-chan struct{}) {
	ticker := time.NewTicker(expireInterval)
	defer ticker.Stop()
	for {
		d.All("")
		select {
		case <-ticker.C:
		case <-stopped:
			return
		}
	}
}
