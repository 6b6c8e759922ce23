package execserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/host/outputlog"
	"codex.internal/pkg/host/process"
	"golang.org/x/sys/unix"
)

// openDetached prepares the server for detached processes, if it is to have any.
func (srv *Server) openDetached() {
	o := srv.opts
	if o.RetainDir == "" {
		return
	}
	reason := ""
	switch {
	case !o.Process.Subreaper:
		reason = process.ErrNoKeepers.Error()
	case len(o.Keeper.Command) == 0:
		reason = "no command for keepers"
	case !filepath.IsAbs(o.RetainDir):
		reason = "the directory is not absolute"
	}
	if reason != "" {
		srv.log.Warn("there are no detached processes", "reason", reason)
		return
	}
	srv.detached = &detachedStore{srv: srv, path: filepath.Clean(o.RetainDir), log: srv.log, open: make(map[string]*kept)}
	srv.wg.Go(func() { srv.detached.routineExpire(srv.stopped) })
	srv.wg.Go(func() { srv.detached.routineEnds(srv.stopped) })
}

// encodeSettings encodes the settings that a keeper reads from its standard input.
func encodeSettings(settings any) ([]byte, error) {
	text, err := json.Marshal(settings)
	if err == nil && len(text) > maxSettings {
		err = fmt.Errorf("the settings of keepers, most of which are hidden paths, have %d bytes, and at most %d are allowed", len(text), maxSettings)
	}
	return text, err
}

// sortKept sorts processes by their starts.
func sortKept(list []*kept) {
	slices.SortStableFunc(list, func(a, b *kept) int {
		switch {
		case a.record.StartedAtMS < b.record.StartedAtMS:
			return -1
		case a.record.StartedAtMS > b.record.StartedAtMS:
			return 1
		}
		return 0
	})
}

// newRecord checks a process/start with detach, and returns what is written about the process.
func (c *conn) newRecord(p *execproto.StartParams) (*keeperRecord, error) {
	owner, err := c.ownerOf()
	if err == nil {
		err = checkHandle(p.ProcessID)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case p.Detach.StartID == "" || len(p.Detach.StartID) > execproto.MaxStartID:
		return nil, execproto.InvalidParams(fmt.Sprintf("startId of a detached process must have 1 to %d bytes", execproto.MaxStartID))
	case p.NetworkProxy != nil:
		// Its proxy would be the keeper's, which does not know the ports of the servers that
		// come later: through it a sandboxed command could reach them as their user.
		return nil, execproto.InvalidParams("a detached process cannot have a network proxy")
	}
	retain, err := c.srv.retainOf(p.Retain)
	return &keeperRecord{
		Format: keeperFormat, Version: c.srv.opts.Version, Owner: owner, ProcessID: p.ProcessID, StartID: p.Detach.StartID,
		Argv: p.Argv, Cwd: p.Cwd, TTY: p.TTY, StartedAtMS: time.Now().UnixMilli(), Retain: retain, Secret: newSecret(),
		Ceiling: c.grant.Ceiling,
	}, err
}

// startDetached has a keeper start the process: there the params go through the stages.
func startDetached(st *start, params *execproto.StartParams) call {
	c, record := st.c, *st.detach
	return call{run: func(request context.Context) (result, error) {
		record.setTrace(observe.TraceOf(request))
		seen := observe.Detached{Session: c.session.seen(), ID: st.id, Argv: params.Argv, Cwd: params.Cwd, Sandbox: params.Sandbox}
		if m := st.metadata; m != nil {
			seen.Thread, seen.ToolCall = shorten(m.ThreadID), shorten(m.ToolCallID)
		}
		if err := c.srv.events.DetachedStarting.Ask(seen); err != nil {
			return nil, err
		}
		// The start outlives the connection: the client that has lost it starts again, and
		// is told of this one.
		ctx, cancel := context.WithTimeout(c.srv.ctx, keeperStartTime)
		defer cancel()
		started, err := c.srv.detached.start(ctx, record, params)
		if err != nil {
			seen = record.seen()
			seen.Err = err
			c.srv.events.DetachedStartFailed.Tell(seen)
		}
		return started, err
	}}
}

// retainOf returns what is in effect of the retain of a process/start.
func (srv *Server) retainOf(p *execproto.Retain) (retainRecord, error) {
	r := retainRecord{
		Bytes: min(DefaultRetain, srv.opts.RetainBytes), Seconds: int64(srv.opts.RetainFor / time.Second),
		WhenFull: string(execproto.WhenFullDropOldest),
	}
	if p == nil {
		return r, nil
	}
	switch {
	case p.Bytes > uint64(srv.opts.RetainBytes):
		return r, execproto.InvalidParams(fmt.Sprintf("this server retains at most %d bytes of output of all detached processes together (--retain-bytes), and %d were asked for", srv.opts.RetainBytes, p.Bytes))
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

// start starts a keeper and in it the process.
func (d *detachedStore) start(ctx context.Context, record keeperRecord, params *execproto.StartParams) (result, error) {
	k, lock, err := d.reserve(record)
	if errors.Is(err, fs.ErrExist) {
		return d.repeated(ctx, record)
	}
	if err != nil {
		return nil, err
	}
	pid, err := d.spawn(k, lock)
	_ = lock.Close() // the keeper has it
	if err == nil {
		var started execproto.StartResult
		own := *params
		own.OutputWindow, own.Retain = 0, new(record.Retain.wire())
		if err = k.callStarting(ctx, &own, &started); err == nil {
			k.setRan()
			d.log.Info("detached process started", "process", shorten(record.ProcessID), "keeper", pid, "sandbox", started.SandboxType)
			return started, nil
		}
	}
	d.log.Info("detached process did not start", "process", shorten(record.ProcessID), "error", err)
	d.setNotStarted(k)
	k.disconnect()
	k.awaitEnd(ctx)
	_ = d.remove(k)
	return nil, err
}

// callStarting sends the start to a keeper that may not listen yet.
func (k *kept) callStarting(ctx context.Context, params *execproto.StartParams, started *execproto.StartResult) error {
	for {
		if _, err := k.connect(ctx); err == nil || ctx.Err() != nil {
			break
		}
		if !k.alive() {
			return k.failed("the keeper of the process could not start")
		}
		if err := pause(ctx, keeperPause/4); err != nil {
			return execproto.Internal("the keeper of the process did not start in time")
		}
	}
	err := k.call(ctx, execproto.MethodProcessStart, params, started)
	if errors.Is(err, errKeeperEnded) {
		return k.failed("the keeper of the process ended while it started the process")
	}
	return err
}

// failed returns the error of a keeper that has ended, with the beginning of what it has printed.
func (k *kept) failed(what string) error {
	f, err := k.root.OpenFile(stderrName, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return execproto.Internal(what)
	}
	defer f.Close()
	const most = 300
	b := make([]byte, most)
	n, _ := f.Read(b)
	switch {
	case n <= 0:
		return execproto.Internal(what)
	case bytes.Contains(b[:n], []byte(noThread)):
		return observe.AtLimit(observe.LimitMachine, execproto.Internal(what+": "+gotNone))
	}
	return execproto.Internal(what + ": " + string(b[:n]))
}

// repeated answers a start whose id is in use.
func (d *detachedStore) repeated(ctx context.Context, record keeperRecord) (result, error) {
	for {
		k, err := d.find(record.Owner, record.ProcessID)
		if err != nil || k.record.StartID != record.StartID {
			return nil, execproto.ProcessExists(shorten(record.ProcessID))
		}
		if _, err := k.root.Lstat("status"); err == nil {
			return execproto.StartResult{ProcessID: record.ProcessID}, nil
		}
		if !k.alive() {
			return nil, execproto.Internal("the server ended while it started the process; start it under another name")
		}
		if err := pause(ctx, keeperPause); err != nil {
			return nil, execproto.ProcessStarting(shorten(record.ProcessID))
		}
	}
}

// reserve makes the directory of a process, and takes the lock that its keeper will hold.
// The error is fs.ErrExist if there is a process of that owner and id.
func (d *detachedStore) reserve(record keeperRecord) (*kept, *os.File, error) {
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
	var k *kept
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

// fill writes the files that a keeper finds in its directory, and returns the lock, taken.
func fill(base *os.Root, name string, record keeperRecord) (*os.File, error) {
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

// checkLimits fails if there are too many processes, or they retain too much together.
func (d *detachedStore) checkLimits(record keeperRecord) error {
	all := d.all("")
	own, bytes := 0, record.Retain.Bytes
	for _, k := range all {
		bytes += k.record.Retain.Bytes
		if k.record.Owner == record.Owner {
			own++
		}
	}
	opts := d.srv.opts
	full := func(text string) error { return observe.AtLimit(observe.LimitDetached, execproto.Internal(text)) }
	switch {
	case own >= opts.MaxDetached:
		return full(fmt.Sprintf("at most %d detached processes may be kept for one owner, also ended ones; forget some or raise --max-detached", opts.MaxDetached))
	case len(all) >= maxKeepers:
		return full(fmt.Sprintf("at most %d detached processes may be kept for all owners", maxKeepers))
	case bytes > opts.RetainBytes:
		return full(fmt.Sprintf("detached processes may retain %d bytes together, and with this one they could retain %d; ask for less, forget some or raise --retain-bytes", opts.RetainBytes, bytes))
	}
	return nil
}

// spawn starts the keeper of a process.
func (d *detachedStore) spawn(k *kept, lock *os.File) (pid int, err error) {
	fail := func(err error) (int, error) {
		return 0, shortOf(err, execproto.Internal("start the keeper of the process: "+err.Error()))
	}
	settings, err := encodeSettings(d.srv.opts.Keeper.Settings)
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
	pid, err = d.srv.supervisor.StartKeeper(process.Spec{
		Argv: d.srv.opts.Keeper.Command, Dir: d.srv.cwdOrRoot(), Env: os.Environ(), ExtraFiles: []*os.File{k.dir, lock},
	}, in, stderr)
	if err != nil {
		return fail(err)
	}
	return pid, nil
}

// cwdOrRoot returns the server's working directory, which a keeper shares.
func (srv *Server) cwdOrRoot() string {
	if srv.cwd == "" {
		return "/"
	}
	return srv.cwd
}

// routineExpire removes what ended processes have left when its time is over.
func (d *detachedStore) routineExpire(stopped <-chan struct{}) {
	ticker := time.NewTicker(expireInterval)
	defer ticker.Stop()
	for {
		d.all("")
		select {
		case <-ticker.C:
		case <-stopped:
			return
		}
	}
}
