package detach

import (
	"context"
	"errors"
	"net"
	"time"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/host/outputlog"
	"codex.internal/pkg/internal/wait"
)

// ErrEnded means that the keeper of a process has ended.
var ErrEnded = errors.New("the keeper of the process has ended")

// Call makes a request to the keeper. It returns ErrEnded if the keeper has ended, and the
// keeper's own errors unchanged. If a process holds the lock but does not answer, because it is
// not a keeper, Call waits as long as for a connection.
func (k *Process) Call(ctx context.Context, method string, params, result execproto.Object) error {
	var silent time.Time // when the keeper first did not answer
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
		case !k.Alive() || k.isClosed():
			return ErrEnded
		case refused != nil: // the keeper is still starting the process
			silent = time.Time{}
			if err := wait.For(ctx, keeperPause); err != nil {
				return err
			}
		case repeatableAtKeeper[method] && (silent.IsZero() || time.Since(silent) < keeperDialTime):
			if silent.IsZero() {
				silent = time.Now()
			}
			// The keeper is ending, or its queue is full.
			if err := wait.For(ctx, keeperPause); err != nil {
				return err
			}
		default:
			return execproto.Internal("the keeper of the process: " + err.Error())
		}
	}
}

// isClosed reports whether the disk has the end of the process. Its keeper may be about to end.
func (k *Process) isClosed() bool {
	s, err := outputlog.ReadStatus(k.root)
	return err == nil && s.Closed
}

// repeatableAtKeeper are the methods that may be sent again.
var repeatableAtKeeper = map[string]bool{
	execproto.MethodProcessRead: true, execproto.MethodProcessWrite: true, execproto.MethodProcessResize: true,
	execproto.MethodProcessTerminate: true,
}

// connect returns a client of the keeper.
func (k *Process) connect(ctx context.Context) (*execclient.Client, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.closed:
		return nil, ErrEnded
	case k.client != nil && k.client.Err() == nil:
		return k.client, nil
	case k.client != nil:
		_ = k.client.Close()
		k.client = nil
	}
	client, err := execclient.DialWebSocket(ctx, "unix://"+socketPath(k.dir), execclient.Options{
		ClientName: "codex-exec-server", BearerToken: k.Record.Secret, RecoveryTimeout: -1,
		ConnectTimeout: keeperDialTime, InitializeTimeout: keeperDialTime,
	})
	if err == nil {
		k.client = client
	}
	return client, err
}

// disconnect ends the connection to the keeper, whose process has ended.
func (k *Process) disconnect() {
	k.mu.Lock()
	client := k.client
	k.client = nil
	k.mu.Unlock()
	if client != nil {
		_ = client.Close()
	}
}

// awaitEnd waits until the keeper has ended.
func (k *Process) awaitEnd(ctx context.Context) {
	for k.Alive() && wait.For(ctx, keeperPause) == nil {
	}
}

// ended returns the log of a process whose keeper has ended.
func (k *Process) ended() (*outputlog.Log, error) {
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
		return nil, execproto.UnknownProcess(k.Record.ProcessID)
	}
	return k.log, nil
}

// Terminate makes the keeper end the process. An ended process is not an error.
func (k *Process) Terminate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	var answer execproto.TerminateResult
	err := k.Call(ctx, execproto.MethodProcessTerminate, &execproto.ProcessParams{ProcessID: k.Record.ProcessID}, &answer)
	if errors.Is(err, ErrEnded) {
		return nil
	}
	return err
}

// ErrOtherCeiling is the error of a client whose ceiling differs from that of the client that
// started the process: the process may do more than the ceiling permits.
var ErrOtherCeiling = errors.New("the process was started under other ceilings than this token's")

// CheckCeiling returns ErrOtherCeiling if a client may not use the process.
func (k *Process) CheckCeiling(own wsauth.Ceiling) error {
	if own != (wsauth.Ceiling{}) && own != k.Record.Ceiling {
		return ErrOtherCeiling
	}
	return nil
}

// Dial connects, for a client with a ceiling, to a port or a path inside the sandbox of the
// process. The error is ErrEnded if the process has ended.
func (k *Process) Dial(ctx context.Context, own wsauth.Ceiling, host string, port uint16, path string) (net.Conn, error) {
	if err := k.CheckCeiling(own); err != nil {
		return nil, err
	}
	if !k.Alive() || k.isClosed() {
		return nil, ErrEnded
	}
	client, err := k.connect(ctx)
	if err != nil {
		return nil, err
	}
	if path != "" && !client.Has(execproto.ExtensionTunnelProcessPath) {
		return nil, errors.New("the keeper of the process was started by an older server and does not support paths")
	}
	conn, err := client.OpenTunnel(ctx, execclient.TunnelTarget{Host: host, Port: port, Path: path, ProcessID: k.Record.ProcessID})
	if err != nil {
		return nil, err
	}
	return conn, nil
}
