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

// The memory that answers hold until they are sent is a part of the client's share (docs/protocol.md, "Limits"). Scenario: a
// client asks for a file of 64 MB or for a directory with 100,000 names again and again, and reads no answer.

const (
	// uncounted is the size of the data that needs no share: a connection has few such requests in work.
	uncounted = 32 << 10
	// entrySize is about what an entry of a listing takes, with its name.
	entrySize = 256
	// sizePerByte is how many bytes of a listing there are, at most, for each byte of the directory on the disk. A
	// name takes 16 bytes there in most file systems, and more if it is long.
	sizePerByte = entrySize / 16
	// helperRoom is what a confined request may answer before it needs more of the share.
	helperRoom = 1 << 20
)

// memory is the part of its client's share that one answer uses.
type memory struct {
	account *share.Account
	n       int64
}

// waitMemory waits until n bytes may be held.
func waitMemory(ctx context.Context, n int64) (*memory, error) {
	m := &memory{account: share.From(ctx)}
	var err error
	m.n, err = m.account.Wait(ctx, observe.LimitMemory, n)
	return m, err
}

// grow takes more memory, so that it is n.
func (m *memory) grow(n int64) error {
	if n <= m.n {
		return nil
	}
	if err := m.account.Take(observe.LimitMemory, n-m.n); err != nil {
		return observe.AtLimit(observe.LimitMemory, execproto.Internal("the answer is too large for now; a file can be read in blocks, by fs/open: "+err.Error()))
	}
	m.n = n
	return nil
}

// keep has the answer hold n bytes, which it takes already.
func (m *memory) keep(n int64) {
	if n > m.n {
		m.account.Add(observe.LimitMemory, n-m.n)
	} else {
		m.account.Give(observe.LimitMemory, m.n-n)
	}
	m.n = n
}

// holding returns the response of a helper as an answer, which gives the memory back when it was sent. A request that has failed gives it
// back now.
func (m *memory) holding(response []byte, err error) (reply.Result, error) {
	if err != nil {
		m.free()
		return nil, err
	}
	m.keep(int64(cap(response)))
	return reply.Followed{Result: reply.Encoded(response), Then: m.free, Sent: true}, nil
}

// free gives all of it back.
func (m *memory) free() { m.keep(0) }

// listing runs a request that lists a directory. It waits until the client may hold so much as the size of the
// directory leads to expect. An account has at most a part of the calls that run at a time, which bounds by how much that is wrong.
//
// It does not wait for memory in a turn of Blocking: a few connections that read no answers would keep all turns, also from
// requests that need no memory (TestWaitingForMemoryTakesNoTurn).
func listing(ctx context.Context, directory string, run func() (fsops.Result, error)) (reply.Result, error) {
	size, err := Blocking(ctx, func() (int64, error) {
		info, err := os.Stat(directory)
		if err != nil {
			return 0, nil // run says why
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
