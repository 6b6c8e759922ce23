package files

import (
	"context"
	"os"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/execserver/share"
	"codex.internal/pkg/fileop/fsops"
)

// Answers hold memory until they are sent. It counts towards the client's share
// (docs/protocol.md, "Limits"). Scenario: a client asks for a file of 64 MB or for a directory
// with 100,000 names again and again, and reads no answer.

const (
	// uncounted is the size up to which data does not count: a connection has few such requests
	// in progress.
	uncounted = 32 << 10
	// entrySize is about how much memory an entry of a listing takes, with its name.
	entrySize = 256
	// sizePerByte is an upper bound for the memory of a listing per byte of the directory on
	// disk. In most file systems a name takes at least 16 bytes of the directory, and a long
	// name more.
	sizePerByte = entrySize / 16
	// helperRoom is the size up to which the answer of a helper does not need more of the
	// share.
	helperRoom = 1 << 20
)

// memory is the part of the client's share that one answer takes.
type memory struct {
	account *share.Account
	n       int64
}

// waitMemory waits until n bytes of the client's share are free, and takes them.
func waitMemory(ctx context.Context, n int64) (*memory, error) {
	m := &memory{account: share.From(ctx)}
	var err error
	m.n, err = m.account.Wait(ctx, observe.LimitMemory, n)
	return m, err
}

// grow takes more memory from the share, up to n bytes in total.
func (m *memory) grow(n int64) error {
	if n <= m.n {
		return nil
	}
	if err := m.account.Take(observe.LimitMemory, n-m.n); err != nil {
		return observe.AtLimit(observe.LimitMemory, execproto.Internal("the answer is too large for now: "+err.Error()))
	}
	m.n = n
	return nil
}

// keep sets the memory that the answer holds to n bytes. It does not check the share, because
// the memory is already allocated.
func (m *memory) keep(n int64) {
	if n > m.n {
		m.account.Add(observe.LimitMemory, n-m.n)
	} else {
		m.account.Give(observe.LimitMemory, m.n-n)
	}
	m.n = n
}

// holding returns the response of a helper as an answer, which releases its memory after it was
// sent. If the request has failed, holding releases the memory at once.
func (m *memory) holding(response []byte, err error) (reply.Result, error) {
	if err != nil {
		m.free()
		return nil, err
	}
	m.keep(int64(cap(response)))
	return reply.Followed{Result: reply.Encoded(response), Then: m.free, Sent: true}, nil
}

// free releases all memory of the answer.
func (m *memory) free() { m.keep(0) }

// listing runs a request that lists a directory. First it waits for as much memory of the
// client's share as the size of the directory suggests. The answer may need more. That excess
// is bounded, because an account may use only a part of the concurrent calls.
//
// It waits for the memory outside of Blocking. Otherwise a few connections that read no answers
// would occupy all calls of Blocking, and requests that need no memory would wait too
// (TestWaitingForMemoryTakesNoTurn).
func listing(ctx context.Context, directory string, run func() (fsops.Result, error)) (reply.Result, error) {
	size, err := Blocking(ctx, func() (int64, error) {
		info, err := os.Stat(directory)
		if err != nil {
			return 0, nil // run returns the error
		}
		return info.Size(), nil
	})
	if err != nil {
		return nil, err
	}
	m, err := waitMemory(ctx, max(uncounted, size*sizePerByte))
	if err != nil {
		return nil, err
	}
	got, err := Blocking(ctx, run)
	if err != nil {
		m.free()
		return nil, err
	}
	entries := 0
	switch r := got.Value.(type) {
	case execproto.ReadDirectoryResult:
		entries = len(r.Entries)
	case execproto.ListAttributesResult:
		entries = len(r.Entries)
	}
	m.keep(int64(entries) * entrySize)
	return reply.Followed{Result: got.Value, Then: m.free, Sent: true}, nil
}
