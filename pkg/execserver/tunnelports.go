package execserver

import (
	"cmp"
	"context"
	"os"
	"slices"
	"sort"
	"sync"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/internal/wait"
	"codex.internal/pkg/sandbox/runner"
	"codex.internal/pkg/wire/logtext"
)

// portWatch tells the client of a connection on which ports processes listen
// (docs/spec/wire.md §11.8): at most one watch at a time. It ends with the connection.
type portWatch struct {
	order order // of the requests

	mu     sync.Mutex
	cancel context.CancelFunc // of the watch in force; nil: there is none
	id     uint64             // of the watch in force
	wg     sync.WaitGroup     // counts routinePorts
}

// end ends the watch in force and waits for its goroutine: nothing is told after it.
func (w *portWatch) end() {
	w.mu.Lock()
	if w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
	w.mu.Unlock()
	w.wg.Wait()
}

// is reports whether the watch in force has that id.
func (w *portWatch) is(id uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cancel != nil && w.id == id
}

// close ends the watch with its connection. No request may be running.
func (w *portWatch) close() { w.end() }

// watchPorts takes tunnel/watchPorts on. A watch that is in force ends.
func watchPorts(c *conn, p *execproto.WatchPortsParams) (call, error) {
	owner := ""
	if p.AllSessions {
		var err error
		if owner, err = c.lastingOwner(); err != nil {
			return call{}, execproto.InvalidRequest("the ports of all sessions are told to an owner, and " + err.Error())
		}
	}
	return call{
		turn: c.ports.order.enter(""),
		run: func(context.Context) (result, error) {
			c.ports.end()
			ctx, cancel := context.WithCancel(c.ctx)
			c.ports.mu.Lock()
			c.ports.cancel, c.ports.id = cancel, p.WatchID
			c.ports.mu.Unlock()
			c.ports.wg.Add(1)
			return followed{done{}, func() { go c.routinePorts(ctx, p.WatchID, owner) }}, nil
		},
	}, nil
}

// unwatchPorts takes tunnel/unwatchPorts on. After the answer nothing is told of the watch. A
// watch that another one has replaced is no error.
func unwatchPorts(c *conn, p *execproto.UnwatchParams) (call, error) {
	return call{
		turn: c.ports.order.enter(""),
		run: func(context.Context) (result, error) {
			if c.ports.is(p.WatchID) {
				c.ports.end()
			}
			return done{}, nil
		},
	}, nil
}

// routinePorts tells the ports at the beginning and whenever they have changed, until ctx
// ends. While the connection's queue is full it does not look: a notification has all
// ports, so one that comes later is as good. With an owner it is about all sessions of
// that.
func (c *conn) routinePorts(ctx context.Context, id uint64, owner string) {
	defer c.ports.wg.Done()
	told := execproto.Ports{WatchID: id}
	for {
		select {
		case c.srv.scanning <- struct{}{}:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		now := c.listening(ctx, owner)
		pause := max(portInterval, portShare*time.Since(began))
		<-c.srv.scanning
		if ctx.Err() != nil {
			return
		}
		if told.Seq == 0 || now.Truncated != told.Truncated || !slices.Equal(now.Ports, told.Ports) {
			now.WatchID, now.Seq = id, told.Seq+1
			told = now
			if c.out.send(ctx, told.AppendJSON) != nil {
				return
			}
		}
		if wait.For(ctx, pause) != nil {
			return
		}
	}
}

// shares reports whether a connection may see a session as one of an owner's: it could
// have started that itself.
func (s *session) shares(c *conn, owner string) bool {
	return s == c.session || owner != "" && s.lasting == owner && s.grant.Token == c.grant.Token
}

// sessionsOf returns the sessions about which a connection asks.
func (c *conn) sessionsOf(owner string) (sessions []*session) {
	c.srv.mu.Lock()
	defer c.srv.mu.Unlock()
	for _, s := range c.srv.sessions {
		if s.shares(c, owner) {
			sessions = append(sessions, s)
		}
	}
	return sessions
}

// listening returns the ports on which processes of the connection's session listen or,
// with an owner, of all sessions of that.
func (c *conn) listening(ctx context.Context, owner string) execproto.Ports {
	all := execproto.Ports{Ports: []execproto.Port{}}
	var procs []*proc
	var running []*process.Process
	for _, s := range c.sessionsOf(owner) {
		for _, p := range s.all() {
			if now := p.now(); now != nil {
				procs, running = append(procs, p), append(running, now)
			}
		}
	}
	if len(procs) == 0 {
		return all
	}
	pids, cut := process.Families(running, maxPortProcesses)
	families := make([]runner.Family, len(procs))
	for i, p := range procs {
		families[i].Pids = pids[i]
		if network, err := p.openNetwork(); err == nil {
			families[i].Network = network
			defer network.Close()
		}
	}
	found, truncated := runner.Listening(ctx, families)
	all.Truncated = cut || truncated
	for i, p := range procs {
		for _, l := range found[i] {
			all.Ports = append(all.Ports, p.port(c, l, families[i].Network != nil))
		}
	}
	// Not slices.SortFunc: it adds 14 KB to the program for each type.
	sort.Slice(all.Ports, func(i, j int) bool { return comparePorts(all.Ports[i], all.Ports[j]) < 0 })
	all.Ports = slices.Compact(all.Ports)
	if len(all.Ports) > maxPorts {
		all.Ports, all.Truncated = all.Ports[:maxPorts], true
	}
	return all
}

// port tells of a listener of the process.
func (p *proc) port(c *conn, l runner.Listener, inside bool) execproto.Port {
	port := execproto.Port{
		ProcessID: p.id, PID: uint64(l.Pid), Command: l.Command, Host: l.Address.Addr().String(), Port: l.Address.Port(), Inside: inside,
	}
	if p.s != c.session {
		port.Session = logtext.Digest(p.s.id)
	}
	return port
}

func comparePorts(a, b execproto.Port) int {
	return cmp.Or(
		cmp.Compare(a.Port, b.Port), cmp.Compare(a.Session, b.Session), cmp.Compare(a.ProcessID, b.ProcessID),
		cmp.Compare(a.Host, b.Host), cmp.Compare(a.PID, b.PID),
	)
}

// openNetwork returns a descriptor of the network of the process's sandbox. The error is
// runner.ErrNoNetwork or runner.ErrNotReady if there is none, and os.ErrProcessDone if the
// process has ended. It must have started.
func (p *proc) openNetwork() (network *os.File, err error) {
	err = p.running.WithPid(func(pid int) (err error) {
		if !p.confined {
			return runner.ErrNoNetwork
		}
		network, err = runner.OpenNetwork(pid)
		return err
	})
	return network, err
}
