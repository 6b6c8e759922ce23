package tunnels

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"sync"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/internal/wait"
	"codex.internal/pkg/sandbox/runner"
)

// PortWatch reports to a client on which ports processes listen (docs/spec/wire.md §11.8). A
// connection has at most one watch at a time, which ends with the connection.
type PortWatch struct {
	mu     sync.Mutex
	cancel context.CancelFunc // of the current watch; nil: none
	id     uint64             // id of the current watch
	wg     sync.WaitGroup     // counts routines
}

// Close ends the current watch and waits for its goroutine: no report is sent after it.
func (w *PortWatch) Close() {
	w.mu.Lock()
	if w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
	w.mu.Unlock()
	w.wg.Wait()
}

// Unwatch ends the watch with that id. If another watch has replaced it, that is not an
// error.
func (w *PortWatch) Unwatch(id uint64) {
	w.mu.Lock()
	inForce := w.cancel != nil && w.id == id
	w.mu.Unlock()
	if inForce {
		w.Close()
	}
}

// Watch ends the current watch, and begins another one, which ends with ctx. The caller must
// call then after the answer was added to the connection's queue. Only one of Watch, Unwatch
// and Close may run at a time.
func (w *PortWatch) Watch(ctx context.Context, srv *Server, c Conn, id uint64, processes func() []Running) (then func()) {
	w.Close()
	ctx, cancel := context.WithCancel(ctx)
	w.mu.Lock()
	w.cancel, w.id = cancel, id
	w.mu.Unlock()
	w.wg.Add(1)
	return func() {
		go func() {
			defer w.wg.Done()
			srv.routinePorts(ctx, c, id, processes)
		}()
	}
}

// routinePorts reports the ports at the beginning and after each change, until ctx ends. While
// the connection's queue is full it does not poll: a notification has all ports, so that a
// later one replaces a missed one.
func (srv *Server) routinePorts(ctx context.Context, c Conn, id uint64, processes func() []Running) {
	told := execproto.Ports{WatchID: id}
	for {
		select {
		case srv.scanning <- struct{}{}:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		now := listening(ctx, processes())
		pause := max(portInterval, portShare*time.Since(began))
		<-srv.scanning
		if ctx.Err() != nil {
			return
		}
		if told.Seq == 0 || now.Truncated != told.Truncated || !slices.Equal(now.Ports, told.Ports) {
			now.WatchID, now.Seq = id, told.Seq+1
			told = now
			if c.Send(ctx, execproto.Notify(&told)) != nil {
				return
			}
		}
		if wait.For(ctx, pause) != nil {
			return
		}
	}
}

// listening returns the ports on which processes listen.
func listening(ctx context.Context, procs []Running) execproto.Ports {
	all := execproto.Ports{Ports: []execproto.Port{}}
	if len(procs) == 0 {
		return all
	}
	running := make([]*process.Process, len(procs))
	for i, p := range procs {
		running[i] = p.Process
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
			all.Ports = append(all.Ports, p.port(l, families[i].Network != nil))
		}
	}
	// sort.Slice and not slices.SortFunc, which adds 14 KB to the program for each type.
	sort.Slice(all.Ports, func(i, j int) bool { return comparePorts(all.Ports[i], all.Ports[j]) < 0 })
	all.Ports = slices.Compact(all.Ports)
	if len(all.Ports) > maxPorts {
		all.Ports, all.Truncated = all.Ports[:maxPorts], true
	}
	return all
}

// port describes a listener of the process.
func (p Running) port(l runner.Listener, inside bool) execproto.Port {
	return execproto.Port{
		ProcessID: p.ID, Session: p.Session, PID: uint64(l.Pid), Command: l.Command,
		Host: l.Address.Addr().String(), Port: l.Address.Port(), Inside: inside,
	}
}

func comparePorts(a, b execproto.Port) int {
	return cmp.Or(
		cmp.Compare(a.Port, b.Port), cmp.Compare(a.Session, b.Session), cmp.Compare(a.ProcessID, b.ProcessID),
		cmp.Compare(a.Host, b.Host), cmp.Compare(a.PID, b.PID),
	)
}
