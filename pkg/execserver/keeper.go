package execserver

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/tracing"
	"codex.internal/pkg/host/outputlog"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/wire/websocket"
	"golang.org/x/sys/unix"
)

// keeperState makes a Server the keeper of one detached process: a server with one session
// that belongs to no connection, whose only process has its output on disk. Clients are
// servers of the same user, on the socket in the process's directory.
//
// States: waiting for the start, running, over. over is closed when the process has closed,
// its start has failed, or none has come in time.
type keeperState struct {
	root    *os.Root
	record  keeperRecord
	session *session

	mu      sync.Mutex
	begun   bool // a start has come
	over    chan struct{}
	endOnce sync.Once
	left    chan struct{} // has an element when the last connection has ended
}

// The descriptors that a keeper inherits.
const (
	keeperDirectory = 3
	keeperLock      = 4
)

// RunKeeper is the main function of the command in KeeperOptions.Command. It returns when the
// process that it keeps has ended, or ctx has: then it ends the process. The options are
// those of the server, but for what concerns clients; it shuts the tracer down. The
// descriptors 3 and 4 are the process's directory and the lock in it.
func RunKeeper(ctx context.Context, opts Options) error {
	spans := keeperSpans{tracer: opts.Tracer}
	defer spans.finish() // when the lock is free
	dir := os.NewFile(keeperDirectory, "directory")
	lock := os.NewFile(keeperLock, "lock")
	if dir == nil || lock == nil {
		return errors.New("a keeper is started by a server, not by hand")
	}
	defer lock.Close()
	defer dir.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("the lock of the keeper: %w", err)
	}
	root, err := os.OpenRoot(descriptorPath(dir))
	if err != nil {
		return err
	}
	defer root.Close()
	record, err := readRecord(root)
	if err != nil {
		return err
	}
	spans.create(root)
	opts.RetainDir, opts.Auth, opts.AnyPeer = "", nil, false
	within := tracing.Parse(record.Traceparent, record.Tracestate)
	srv, err := newServer(opts, &within)
	if err != nil {
		return err
	}
	srv.keeper = &keeperState{root: root, record: record, over: make(chan struct{}), left: make(chan struct{}, 1)}
	if srv.keeper.session, err = srv.newSession(&conn{principal: record.Owner}); err != nil {
		return err
	}
	srv.keeper.session.conn = nil // it is attached to no connection
	listener, err := websocket.ListenUnix(ctx, socketPath(dir))
	if err != nil {
		return fmt.Errorf("listen for servers: %w", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(ctx, listener) })
	srv.keeper.await(ctx)
	srv.keeper.linger(ctx, srv)
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), keeperEndTime)
	defer cancel()
	err = srv.Shutdown(bound)
	wg.Wait()
	return err
}

// await waits until the process is over, or ctx ends.
func (k *keeperState) await(ctx context.Context) {
	timer := time.AfterFunc(keeperStartTime, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if !k.begun {
			k.begun = true // a start that comes now is refused
			k.end()
		}
	})
	defer timer.Stop()
	select {
	case <-k.over:
	case <-ctx.Done():
	}
}

// linger lets servers get the last answers: it waits until they have closed their
// connections, which they do then, up to lingerTime.
func (k *keeperState) linger(ctx context.Context, srv *Server) {
	timer := time.NewTimer(lingerTime)
	defer timer.Stop()
	for srv.connections() > 0 {
		select {
		case <-k.left:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// connections returns how many connections are open.
func (srv *Server) connections() int {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return srv.conns
}

func (k *keeperState) end() { k.endOnce.Do(func() { close(k.over) }) }

// begin admits the start of the process, once.
func (k *keeperState) begin(p *execproto.StartParams) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case p.Detach == nil || p.ProcessID != k.record.ProcessID || p.Detach.StartID != k.record.StartID:
		return execproto.InvalidRequest("a keeper starts the process that it was started for, and no other")
	case k.begun:
		return execproto.ProcessExists(shorten(p.ProcessID))
	}
	k.begun = true
	return nil
}

// admits reports why a client of a keeper is refused; nil: it is not. It must be a process
// of this user, which no sandbox confines, and know the secret.
func (k *keeperState) admits(srv *Server, r *http.Request) *observe.Refused {
	if _, err := srv.identify(r); err != nil {
		return &observe.Refused{Status: http.StatusForbidden, Err: err}
	}
	want := "Bearer " + k.record.Secret
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(want)) != 1 {
		return &observe.Refused{Status: http.StatusUnauthorized, Err: errors.New("this is the keeper of a detached process; connect to a server")}
	}
	return nil
}

// logOutput makes the log of the process that is about to start.
func (k *keeperState) logOutput() (*outputlog.Log, error) {
	r := k.record.Retain
	log, err := outputlog.Create(k.root, outputlog.Options{Bytes: r.Bytes, WhenFull: outputlog.WhenFull(r.WhenFull)})
	if err != nil {
		return nil, execproto.Internal("retain output: " + err.Error())
	}
	return log, nil
}

// retainOutput has the output of the process written to disk.
func retainOutput(_ context.Context, st *start) (err error) {
	st.p.kept, err = st.c.srv.keeper.logOutput()
	return err
}

// sink returns what receives the events of the process.
func (p *proc) sink() process.Sink {
	if p.kept == nil {
		return p
	}
	return &keptProc{proc: p, log: p.kept, keeper: p.s.srv.keeper}
}

// keptProc is what the process of a keeper has beside that of a session. It implements
// process.Sink.
type keptProc struct {
	*proc
	log    *outputlog.Log
	keeper *keeperState
}

// Output implements process.Sink. It blocks while there is no room, as the policy says.
func (p *keptProc) Output(seq uint64, stream process.Stream, chunk []byte) {
	p.countOutput(stream, len(chunk))
	p.log.Append(p.s.ctx, seq, stream, chunk)
}

// Exited implements process.Sink.
func (p *keptProc) Exited(seq uint64, e process.Exit) {
	p.recordConfined()
	reason := ""
	if refused := p.exited(&e); refused != nil {
		reason = refused.Reason
	}
	if err := p.log.Exit(seq, e.Code, e.Denied, reason); err != nil {
		p.s.srv.log.Warn("the exit of a process is not retained", "error", err)
	}
}

// Closed implements process.Sink. It is the end of the keeper.
func (p *keptProc) Closed(seq uint64) {
	p.recordConfined()
	p.closeNetwork()
	ending := outputlog.Ending{Cause: string(p.seen.Exit.Cause), BytesIn: p.seen.In.Load(), BytesOut: p.seen.Out.Load()}
	if err := p.log.Close(seq, time.Now(), ending); err != nil {
		p.s.srv.log.Warn("the end of a process is not retained", "error", err)
	}
	p.s.srv.events.ProcessClosed.Tell(&p.seen)
	p.keeper.end()
}

// descriptorPath returns a path of an open directory that no other process can redirect.
func descriptorPath(dir *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) }

// socketPath returns the path of the socket in a process's directory.
func socketPath(dir *os.File) string { return descriptorPath(dir) + "/" + socketName }
