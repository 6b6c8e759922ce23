package execserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"codex.internal/pkg/execserver/detach"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/host/outputlog"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/wire/websocket"
)

const (
	// keeperEndTime bounds the normal end of a keeper.
	keeperEndTime = 15 * time.Second
	// lingerTime is how long a keeper whose process has ended waits for its servers to read
	// the last answers.
	lingerTime = 3 * time.Second
)

// keeper makes a Server the keeper of one detached process: a server with one session
// that belongs to no connection.
type keeper struct {
	*detach.Keeper
	session *session
	left    chan struct{} // gets an element when the last connection has ended
}

// RunKeeper is the main function of the command in KeeperOptions.Command. It returns when its
// process has ended. If ctx ends first, RunKeeper ends the process. The options are the
// server's, except those about clients. RunKeeper shuts the tracer down. Descriptor 3 is the
// process's directory, and descriptor 4 is the lock in it.
func RunKeeper(ctx context.Context, opts Options) error {
	own, err := detach.OpenKeeper(opts.Tracer)
	if err != nil {
		return err
	}
	defer own.Close()
	opts.RetainDir, opts.Auth, opts.AnyPeer = "", nil, false
	within := own.Trace()
	srv, err := newServer(opts, &within)
	if err != nil {
		return err
	}
	if err := srv.keep(own); err != nil {
		return err
	}
	listener, err := websocket.ListenUnix(ctx, own.Socket())
	if err != nil {
		return fmt.Errorf("listen for servers: %w", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(ctx, listener) })
	own.Await(ctx)
	srv.linger(ctx)
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), keeperEndTime)
	defer cancel()
	err = srv.Shutdown(bound)
	wg.Wait()
	return err
}

// keep makes the server a keeper.
func (srv *Server) keep(own *detach.Keeper) error {
	s, err := srv.newSession(&conn{principal: own.Record.Owner})
	if err != nil {
		return err
	}
	s.conn = nil // the keeper's session has no connection
	srv.keeper = &keeper{own, s, make(chan struct{}, 1)}
	return nil
}

// linger waits until all servers have closed their connections, for at most lingerTime. A
// server closes its connection after it has read the last answer.
func (srv *Server) linger(ctx context.Context) {
	timer := time.NewTimer(lingerTime)
	defer timer.Stop()
	for srv.connections() > 0 {
		select {
		case <-srv.keeper.left:
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

// admits returns the reason for which a keeper refuses a client; nil: it accepts the client.
// The client must be a process of this user that no sandbox confines, and must have the secret.
func (k *keeper) admits(srv *Server, r *http.Request) *observe.Refused {
	if _, err := srv.identify(r); err != nil {
		return &observe.Refused{Status: http.StatusForbidden, Err: err}
	}
	if !k.Knows(r.Header.Get("Authorization")) {
		return &observe.Refused{Status: http.StatusUnauthorized, Err: errors.New("this is the keeper of a detached process; connect to a server")}
	}
	return nil
}

// retainOutput creates the file for the output of the process.
func retainOutput(_ context.Context, st *start) (err error) {
	st.p.output, err = st.c.srv.keeper.LogOutput()
	return err
}

// sink returns the receiver of the process's events.
func (p *proc) sink() process.Sink {
	if p.output == nil {
		return p
	}
	return &retainedProc{p}
}

// retainedProc is the process of a keeper. It writes its output to disk. It implements
// process.Sink.
type retainedProc struct{ *proc }

// Output implements process.Sink. If the disk space is used up and the policy is to wait,
// Output blocks.
func (p *retainedProc) Output(seq uint64, stream process.Stream, chunk []byte) {
	p.countOutput(stream, len(chunk))
	p.output.Append(p.s.ctx, seq, stream, chunk)
}

// Exited implements process.Sink.
func (p *retainedProc) Exited(seq uint64, e process.Exit) {
	reason := ""
	if refused := p.exited(&e); refused != nil {
		reason = refused.Reason
	}
	if err := p.output.Exit(seq, e.Code, e.Denied, reason); err != nil {
		p.s.srv.log.Warn("the exit of a process is not retained", "error", err)
	}
}

// Closed implements process.Sink. It ends the keeper.
func (p *retainedProc) Closed(seq uint64) {
	p.closeNetwork()
	ending := outputlog.Ending{Cause: string(p.seen.Exit.Cause), BytesIn: p.seen.In.Load(), BytesOut: p.seen.Out.Load()}
	if err := p.output.Close(seq, time.Now(), ending); err != nil {
		p.s.srv.log.Warn("the end of a process is not retained", "error", err)
	}
	p.s.srv.events.ProcessClosed.Tell(&p.seen)
	p.s.srv.keeper.End()
}
