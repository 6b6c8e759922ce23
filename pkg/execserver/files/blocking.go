package files

import (
	"context"

	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/share"
)

// Blocking calls f, whose system calls about files may hang, as on a network file system whose server is down: each holds a thread of
// this program for as long. Scenario: clients ask for more files than the machine has threads for. Therefore f waits for its turn until
// fewer than MaxFileCalls run, of which the client of ctx has a share (pkg/execserver/share). Blocking returns what f returns, or the
// error of ctx if that ends before f begins. f must not call Blocking.
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
