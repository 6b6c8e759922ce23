package execserver

import (
	"context"
	"errors"
	"time"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/outputlog"
)

// errKeeperEnded means that the keeper of a process has ended.
var errKeeperEnded = errors.New("the keeper of the process has ended")

// call makes a request to the keeper. It returns errKeeperEnded if the keeper has ended,
// and the keeper's own errors as such. A process that holds the lock and does not answer, as one
// that is no keeper, is waited for as long as for a connection.
func (k *kept) call(ctx context.Context, method string, params, result execproto.Object) error {
	var silent time.Time // since when
	for {
		client, err := k.connect(ctx)
		if err == nil {
			err = client.Call(ctx, method, params, result)
		}
		var refused *execclient.ServerError
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case errors.As(err, &refused) && !execproto.IsProcessStarting(err):
			return errors.Unwrap(refused)
		case !k.alive() || k.isClosed():
			return errKeeperEnded
		case refused != nil: // it still starts the process
			silent = time.Time{}
			if err := pause(ctx, keeperPause); err != nil {
				return err
			}
		case repeatableAtKeeper[method] && (silent.IsZero() || time.Since(silent) < keeperDialTime):
			if silent.IsZero() {
				silent = time.Now()
			}
			// It is ending, or its queue is full.
			if err := pause(ctx, keeperPause); err != nil {
				return err
			}
		default:
			return execproto.Internal("the keeper of the process: " + err.Error())
		}
	}
}

// isClosed reports whether it is known on disk how the process has ended. Its keeper may be
// about to end.
func (k *kept) isClosed() bool {
	s, err := outputlog.ReadStatus(k.root)
	return err == nil && s.Closed
}

// repeatableAtKeeper are the methods that may be sent again.
var repeatableAtKeeper = map[string]bool{
	execproto.MethodProcessRead: true, execproto.MethodProcessWrite: true, execproto.MethodProcessResize: true,
	execproto.MethodProcessTerminate: true,
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// connect returns a client of the keeper.
func (k *kept) connect(ctx context.Context) (*execclient.Client, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.closed:
		return nil, errKeeperEnded
	case k.client != nil && k.client.Err() == nil:
		return k.client, nil
	case k.client != nil:
		_ = k.client.Close()
		k.client = nil
	}
	client, err := execclient.DialWebSocket(ctx, "unix://"+socketPath(k.dir), execclient.Options{
		ClientName: "codex-exec-server", BearerToken: k.record.Secret, RecoveryTimeout: -1,
		ConnectTimeout: keeperDialTime, InitializeTimeout: keeperDialTime,
	})
	if err == nil {
		k.client = client
	}
	return client, err
}

// disconnect ends the connection to the keeper, whose process has ended.
func (k *kept) disconnect() {
	k.mu.Lock()
	client := k.client
	k.client = nil
	k.mu.Unlock()
	if client != nil {
		_ = client.Close()
	}
}

// awaitEnd waits until the keeper has ended.
func (k *kept) awaitEnd(ctx context.Context) {
	for k.alive() && pause(ctx, keeperPause) == nil {
	}
}

// ended returns the log of a process whose keeper has ended.
func (k *kept) ended() (*outputlog.Log, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.log == nil && !k.closed {
		log, err := outputlog.Open(k.root)
		if err != nil {
			return nil, execproto.Internal("open retained output: " + err.Error())
		}
		k.log = log
	}
	if k.log == nil {
		return nil, unknownProcess(k.record.ProcessID)
	}
	return k.log, nil
}

// terminate has the keeper end the process. One that has ended is no error.
func (k *kept) terminate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	var answer execproto.TerminateResult
	err := k.call(ctx, execproto.MethodProcessTerminate, &execproto.ProcessParams{ProcessID: k.record.ProcessID}, &answer)
	if errors.Is(err, errKeeperEnded) {
		return nil
	}
	return err
}
