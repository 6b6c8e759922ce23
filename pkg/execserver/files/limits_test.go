package files

import (
	"errors"
	"strconv"
	"testing"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/share"
	"codex.internal/pkg/wire/jsonrpc"
)

// TestLimitsHaveNames: the error of a limit contains the limit's name in metrics, and keeps
// its code.
func TestLimitsHaveNames(t *testing.T) {
	one := handleTable{limit: 1, open: map[string]*fileHandle{"a": {}}}
	packed := handleTable{limit: 100, open: make(map[string]*fileHandle)}
	for i := range execproto.MaxArchives {
		packed.open[strconv.Itoa(i)] = &fileHandle{packed: true}
	}
	_, ofHandles := one.reserve("b", &fileHandle{})
	_, ofArchives := packed.reserve("b", &fileHandle{packed: true})
	srv := NewServer(Options{})
	shares := share.New(map[observe.Limit]int64{observe.LimitWatches: 0})
	var trees watchTable
	for i := range uint64(maxWatches) {
		if _, err := trees.reserve(srv.New(t.Context(), nil), i); err != nil {
			t.Fatal(err)
		}
	}
	_, ofTable := trees.reserve(srv.New(t.Context(), nil), maxWatches)
	ofInstances := (&inotify{account: shares.Open("", true)}).acquire()
	for _, tt := range []struct {
		limit observe.Limit
		err   error
	}{
		{observe.LimitHandles, ofHandles}, {observe.LimitArchives, ofArchives}, {observe.LimitWatches, ofTable}, {observe.LimitWatches, ofInstances},
	} {
		limit, err := tt.limit, tt.err
		at, ok := errors.AsType[*observe.LimitError](err)
		if !ok || at.Limit != limit {
			t.Errorf("%s: got %v, want an error of that limit", limit, err)
		}
		if rpc, ok := errors.AsType[*jsonrpc.Error](err); !ok || rpc.Code != execproto.CodeInvalidRequest {
			t.Errorf("%s: got %v, want the code %d", limit, err, execproto.CodeInvalidRequest)
		}
	}
}
