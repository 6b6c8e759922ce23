package confine

import (
	"os"
	"sync"

	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox/placeholders"
	"codex.internal/pkg/sandbox/runner"
)

// janitorKeeper keeps the janitor, which removes the placeholders of killed launchers:
// one for all sandboxes of the server, started when it is needed. If it has ended, the
// sandboxes that are being started with it fail, and the next gets a new one.
type janitorKeeper struct {
	c *Confiner

	mu      sync.Mutex
	janitor *process.Janitor // nil: none was started
}

// connect returns a connection for one sandbox, or nil if there is no janitor: then the
// launcher starts its own.
func (k *janitorKeeper) connect(runtime *runner.Runtime) *os.File {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.janitor != nil {
		if f, err := connectTo(k.janitor); err == nil {
			return f
		}
		k.janitor.Kill()
	}
	var err error
	if k.janitor, err = k.start(runtime); err == nil {
		var f *os.File
		if f, err = connectTo(k.janitor); err == nil {
			return f
		}
	}
	k.c.opts.Log.Warn("the server has no janitor; each sandbox starts its own", "error", err)
	return nil
}

// start starts a janitor and waits until it is ready.
func (k *janitorKeeper) start(runtime *runner.Runtime) (*process.Janitor, error) {
	ours, theirs, err := placeholders.JanitorPair()
	if err != nil {
		return nil, err
	}
	socket := os.NewFile(uintptr(theirs), "janitor")
	command := runtime.Janitor()
	j, err := k.c.opts.Supervisor.StartJanitor(process.Spec{
		Argv: command.Argv, Arg0: &command.Arg0, Dir: "/", Env: command.Env, ExtraFiles: append(command.Files, socket),
	}, ours)
	// The janitor has this end now. If it stayed open here, the server would not notice
	// a janitor that ends at once, and the first sandbox would start seconds later,
	// after a timeout.
	_ = socket.Close()
	if err != nil {
		return nil, err
	}
	if err := j.Use(placeholders.AwaitJanitor); err != nil {
		j.Kill()
		return nil, err
	}
	return j, nil
}

// connectTo makes a connection to a janitor.
func connectTo(j *process.Janitor) (*os.File, error) {
	connection := -1
	err := j.Use(func(socket int) (err error) {
		connection, err = placeholders.ConnectJanitor(socket)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(connection), "janitor"), nil
}
