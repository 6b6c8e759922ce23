package detach

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/tracing"
	"codex.internal/pkg/host/outputlog"
	"golang.org/x/sys/unix"
)

// Keeper is the part of a keeper that uses its directory: the record of its process, its lock,
// its socket and its output. The server in it has one session that belongs to no connection,
// whose only process has its output on disk. Clients are servers of the same user, on the
// socket.
//
// States: waiting for the start, running, over. It is over when the process has closed, its
// start has failed, or no start has arrived in time.
type Keeper struct {
	Record Record
	root   *os.Root
	dir    *os.File
	lock   *os.File
	spans  keeperSpans

	mu      sync.Mutex
	begun   bool // a start has arrived
	over    chan struct{}
	endOnce sync.Once
}

// The descriptors that a keeper inherits from its server.
const (
	keeperDirectory = 3
	keeperLock      = 4
)

// OpenKeeper takes the lock of the directory that a server has given this program, and reads its record.
// The caller must call Close.
func OpenKeeper(tracer *tracing.Tracer) (_ *Keeper, err error) {
	k := &Keeper{
		dir: os.NewFile(keeperDirectory, "directory"), lock: os.NewFile(keeperLock, "lock"),
		spans: keeperSpans{tracer: tracer}, over: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			k.Close()
		}
	}()
	if k.dir == nil || k.lock == nil {
		return nil, errors.New("a keeper is started by a server, not by hand")
	}
	if err := unix.Flock(int(k.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("the lock of the keeper: %w", err)
	}
	if k.root, err = os.OpenRoot(descriptorPath(k.dir)); err != nil {
		return nil, err
	}
	if k.Record, err = readRecord(k.root); err != nil {
		return nil, err
	}
	k.spans.create(k.root)
	return k, nil
}

// Close releases the directory and its lock, and exports the pending spans.
func (k *Keeper) Close() {
	if k.root != nil {
		_ = k.root.Close()
	}
	if k.dir != nil {
		_ = k.dir.Close()
	}
	if k.lock != nil {
		_ = k.lock.Close()
	}
	k.spans.finish() // after the lock was released
}

// Socket is the path of the socket on which servers are accepted.
func (k *Keeper) Socket() string { return socketPath(k.dir) }

// Trace is the trace of the process; invalid: none.
func (k *Keeper) Trace() tracing.Context {
	return tracing.Parse(k.Record.Traceparent, k.Record.Tracestate)
}

// Knows reports whether a request has the secret of the process.
func (k *Keeper) Knows(authorization string) bool {
	return subtle.ConstantTimeCompare([]byte(authorization), []byte("Bearer "+k.Record.Secret)) == 1
}

// Await waits until the process is over, or ctx ends.
func (k *Keeper) Await(ctx context.Context) {
	timer := time.AfterFunc(keeperStartTime, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if !k.begun {
			k.begun = true // refuses a start that arrives later
			k.End()
		}
	})
	defer timer.Stop()
	select {
	case <-k.over:
	case <-ctx.Done():
	}
}

func (k *Keeper) End() { k.endOnce.Do(func() { close(k.over) }) }

// Begin accepts the start of the process, once.
func (k *Keeper) Begin(p *execproto.StartParams) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case p.Detach == nil || p.ProcessID != k.Record.ProcessID || p.Detach.StartID != k.Record.StartID:
		return execproto.InvalidRequest("a keeper starts the process that it was started for, and no other")
	case k.begun:
		return execproto.ProcessExists(observe.Short(p.ProcessID))
	}
	k.begun = true
	return nil
}

// LogOutput creates the output log of the process that is about to start.
func (k *Keeper) LogOutput() (*outputlog.Log, error) {
	r := k.Record.Retain
	log, err := outputlog.Create(k.root, outputlog.Options{Bytes: r.Bytes, WhenFull: outputlog.WhenFull(r.WhenFull)})
	if err != nil {
		return nil, execproto.Internal("retain output: " + err.Error())
	}
	return log, nil
}

// descriptorPath returns a path of an open directory that no other process can redirect.
func descriptorPath(dir *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) }

// socketPath returns the path of the socket in a process's directory.
func socketPath(dir *os.File) string { return descriptorPath(dir) + "/" + socketName }
