package execserver

import (
	"context"
	"errors"
	"sync"
	"time"

	"codex.internal/pkg/host/envpolicy"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/host/shellsnapshot"
)

// restoreShell makes the command restore the state that the start-up files have set, if the
// session has that state or can get it. Otherwise the command runs the start-up files itself.
func restoreShell(ctx context.Context, st *start) error {
	rq, s := st.shell, st.p.s
	found := s.shells.get(ctx, rq.key, func(ctx context.Context) (*shellsnapshot.Snapshot, error) {
		found, err := st.captureShell(ctx)
		if err != nil {
			st.p.seen.Log.Info("no shell snapshot", "shell", st.spec.Argv[0], "error", err)
		}
		return found, err
	})
	if found == nil {
		return nil
	}
	env := envpolicy.Environ(found.Environ, &rq.policy, rq.env)
	if st.p.network != nil {
		// The snapshot may come from a process with its own proxy.
		env = st.p.network.Environ(env)
	}
	st.spec.Argv, st.spec.Env = found.Argv(st.spec.Argv), append(env, found.Variables()...)
	return nil
}

// snapshots has the shell states that a session retains.
type snapshots struct {
	mu      sync.Mutex
	entries map[string]*snapshotEntry
	uses    uint64
}

// snapshotEntry has a state, or the attempts to get it.
type snapshotEntry struct {
	used     uint64        // the number of the last use
	busy     chan struct{} // closed at the end of the current attempt; nil: there is none
	found    *shellsnapshot.Snapshot
	failures int
	failed   time.Time // time of the last failed attempt
}

// get returns the state for a key; nil: there is none. If several callers need it, one of them
// gets it by capture while the others wait.
func (x *snapshots) get(
	ctx context.Context, key string, capture func(context.Context) (*shellsnapshot.Snapshot, error),
) *shellsnapshot.Snapshot {
	x.mu.Lock()
	e := x.enter(key)
	for e.busy != nil {
		busy := e.busy
		x.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil
		}
		x.mu.Lock()
	}
	defer x.mu.Unlock()
	if e.found != nil || e.failures >= snapshotTries || e.failures > 0 && time.Since(e.failed) < snapshotPause {
		return e.found
	}
	e.busy = make(chan struct{})
	x.mu.Unlock()
	limited, done := context.WithTimeout(ctx, snapshotTime)
	found, err := capture(limited)
	done()
	x.mu.Lock()
	close(e.busy)
	e.busy = nil
	switch {
	case err == nil:
		e.found = found
	case ctx.Err() == nil: // after a cancelled start, the failure is not the shell's
		e.failures++
		e.failed = time.Now()
	}
	return e.found
}

// enter returns the entry of a key. The caller holds the lock. A new entry replaces the least
// recently used one. Callers that still wait for the replaced entry keep it.
func (x *snapshots) enter(key string) *snapshotEntry {
	e := x.entries[key]
	if e == nil {
		if len(x.entries) >= maxSnapshots {
			oldest := ""
			for k, other := range x.entries {
				if oldest == "" || other.used < x.entries[oldest].used {
					oldest = k
				}
			}
			delete(x.entries, oldest)
		}
		if x.entries == nil {
			x.entries = make(map[string]*snapshotEntry)
		}
		e = &snapshotEntry{}
		x.entries[key] = e
	}
	x.uses++
	e.used = x.uses
	return e
}

// captureShell runs the start-up files and returns the resulting state. The start-up files run
// as a process of the session, in the directory, the environment and the sandbox of the
// command. Background jobs that they start continue until the session ends, like those of a
// command.
func (st *start) captureShell(ctx context.Context) (*shellsnapshot.Snapshot, error) {
	marker, s, spec := shellsnapshot.NewMarker(), st.p.s, st.spec
	spec = process.Spec{
		Argv: []string{spec.Argv[0], "-lc", shellsnapshot.Script(marker)}, Arg0: spec.Arg0, Dir: spec.Dir, Env: spec.Env,
		Limits: spec.Limits,
	}
	c := &shellCapture{marker: marker, ended: make(chan struct{})}
	if st.confinement != nil {
		command, err := s.srv.confiner.Confine(st.confinement, &spec)
		if err != nil {
			return nil, err
		}
		defer command.Close()
		defer command.Refusal.Close()
		if command.Egress != nil {
			st.p.redirect(command.Egress)
		}
	}
	running, err := s.group.Start(ctx, spec, c)
	if err != nil {
		return nil, err
	}
	running.OpenGate()
	select {
	case <-c.ended:
	case <-ctx.Done():
		running.Terminate()
		<-c.ended
	}
	running.Release()
	if c.output == nil {
		return nil, errors.Join(shellsnapshot.ErrNone, ctx.Err())
	}
	return shellsnapshot.Parse(c.output, marker)
}

// shellCapture is the process.Sink of a process that runs start-up files.
type shellCapture struct {
	marker string

	// Only one event is delivered at a time. output may be read after ended is closed.
	collected []byte
	output    []byte // the state; nil: there is none
	over      bool
	ended     chan struct{}
}

// Output implements process.Sink. The start-up files' stderr is dropped.
func (c *shellCapture) Output(_ uint64, stream process.Stream, chunk []byte) {
	if c.over || stream != process.Stdout {
		return
	}
	if len(c.collected)+len(chunk) > shellsnapshot.MaxOutput {
		c.end(nil)
		return
	}
	// Search only the part that may contain the end of the marker: start-up files may write
	// byte by byte.
	from := max(len(c.collected)-2*len(c.marker), 0)
	c.collected = append(c.collected, chunk...)
	if shellsnapshot.Complete(c.collected[from:], c.marker) {
		c.end(c.collected)
	}
}

// end ends the capture with the state, or nil.
func (c *shellCapture) end(output []byte) {
	if c.over {
		return
	}
	c.over, c.output, c.collected = true, output, nil
	close(c.ended)
}

// Exited implements process.Sink. All output of the shell itself has already arrived.
func (c *shellCapture) Exited(uint64, process.Exit) { c.end(nil) }

// Closed implements process.Sink.
func (c *shellCapture) Closed(uint64) {
	c.end(nil)
}
