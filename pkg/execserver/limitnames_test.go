package execserver

import (
	"errors"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/host/process"
)

// TestLimitsHaveNames: an error of a limit says which metric it belongs to, and keeps its code.
func TestLimitsHaveNames(t *testing.T) {
	files := handleTable{limit: 1, open: map[string]*fileHandle{"a": {}}}
	packed := handleTable{limit: 100, open: make(map[string]*fileHandle)}
	for i := range execproto.MaxArchives {
		packed.open[strconv.Itoa(i)] = &fileHandle{packed: true}
	}
	_, ofFiles := files.reserve("b", &fileHandle{})
	_, ofArchives := packed.reserve("b", &fileHandle{packed: true})
	for limit, err := range map[observe.Limit]error{
		observe.LimitHandles: ofFiles, observe.LimitArchives: ofArchives,
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
