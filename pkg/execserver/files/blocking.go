package files

import (
	"context"

	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/share"
)

// Blocking calls f, whose system calls on files may hang, as on a network file system whose
// server is down. Each such call blocks a thread of this program meanwhile. Scenario: clients
// ask for more files than the machine has threads for. Therefore Blocking waits until fewer
// than MaxFileCalls calls run, of which the client of ctx has a share (pkg/execserver/share).
// Blocking returns the results of f, or the error of ctx if ctx ends before f begins. f must
// not call Blocking.
func Blocking[T any](ctx context.Context, f func() (T, error)) (v T, err error) {
	account := share.From(ctx)
	if account == nil {
		return f() // the server's own work: few calls, one after the other
	}
	if _, err := account.Wait(ctx, observe.LimitFileCalls, 1); err != nil {
		return v, err
	}
	defer account.Give(observe.LimitFileCalls, 1)
	return f()
}
