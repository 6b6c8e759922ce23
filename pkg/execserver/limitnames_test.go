package execserver

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/host/process"
)

// TestLimitsHaveNames: the error of a limit contains the limit's name in metrics, and keeps
// its code.
func TestLimitsHaveNames(t *testing.T) {
	for limit, err := range map[observe.Limit]error{
		observe.LimitHTTPBodies: (&streamTable{}).reserve(bufferedHTTP + 1),
		observe.LimitMachine:    startError(&process.ShortageError{Lacks: "the machine has no memory left", Err: syscall.ENOMEM}),
	} {
		at, ok := errors.AsType[*observe.LimitError](err)
		if !ok || at.Limit != limit || !slices.Contains(observe.Limits, limit) {
			t.Errorf("%s: got error %v; want ok true, at.Limit %s, observe.Limits with %v", limit, err, limit, limit)
		}
		if e := toRPC(err); e.Code == 0 || e.Message != err.Error() {
			t.Errorf("%s: got %+v; want e.Code other than 0, e.Message err.Error()", limit, e)
		}
	}
}
