package confine

import (
	"os"
	"sync"

	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox/placeholders"
	"codex.internal/pkg/sandbox/runner"
)

// janitorKeeper starts and retains the janitor, which removes the placeholders of killed
// launchers. A server has one janitor for all sandboxes, and starts it when a sandbox needs it.
// If the janitor ends, the sandboxes that are being started with it fail, and the next one gets
// a new janitor.
type janitorKeeper struct {
	c *Confiner

	mu      sync.Mutex
	janitor *process.Janitor // nil: none was started
}

// connect returns a connection to the janitor for one sandbox. It returns nil if there is no
// janitor: the launcher then starts its own.
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
	// The janitor now has this end. If it stayed open here, the server would not notice a
	// janitor that ends immediately, and the first sandbox would start only after a timeout of
	// seconds.
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
