package execserver

import (
	"context"
	"errors"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"codex.internal/pkg/execserver/files"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/share"
	"codex.internal/pkg/wire/websocket"
)

// shared returns the limits of the resources that all clients of a server share
// (docs/protocol.md, "Limits"). pkg/execserver/share divides them.
func (o *Options) shared() map[observe.Limit]int64 {
	return map[observe.Limit]int64{
		observe.LimitConnections: int64(o.MaxConnections),
		observe.LimitWatches:     min(files.MaxServerWatches, max(1, inotifyInstances()/2)),
		observe.LimitDescriptors: descriptorLimit() / 2,
		observe.LimitProcesses:   fullSessions * int64(o.MaxProcesses),
		observe.LimitFileCalls:   files.MaxFileCalls,
		observe.LimitMemory:      o.memory(),
		observe.LimitTurns:       turns(),
	}
}

// memory returns the memory for answers and messages: enough that a principal, which may have
// half of it, can send the largest message.
func (o *Options) memory() int64 {
	if o.MaxMessage <= websocket.DefaultMaxMessage {
		return answerMemory
	}
	return 4 * min(int64(o.MaxMessage), math.MaxInt64/32)
}

// descriptorLimit returns how many descriptors this program may open.
func descriptorLimit() int64 {
	const usual = 1024
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return usual
	}
	return int64(min(limit.Cur, math.MaxInt64))
}

// turns returns how many requests of all connections may run before they are slow: on all
// processors but one. With two turns on two processors, a quiet connection waited seven times as
// long beside ten busy ones.
func turns() int64 { return int64(max(1, runtime.GOMAXPROCS(0)-1)) }

// inotifyInstances returns how many inotify instances all programs of this user may have.
func inotifyInstances() int64 {
	const usual = 128 // the kernel's default, if /proc cannot be read
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if err != nil {
		return usual
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return usual
	}
	return n
}

// hasWhole reports whether a client is not restricted to a share, and may take everything that
// is free: the user of the server's own machine, and every client of a server without
// authentication.
func (srv *Server) hasWhole(principal string) bool {
	return srv.keeper != nil || principal == "" || principal == anybody || strings.HasPrefix(principal, userPrefix)
}

// messageMemory counts the memory of a connection's incoming messages, for websocket.Options.
type messageMemory struct {
	ctx     context.Context // context of the server
	account *share.Account
}

// errNoMemory ends a connection if one of its messages gets no memory for memoryTime.
var errNoMemory = errors.New("the memory that the server has for messages is in use by other requests; try again later")

// Take implements websocket.Memory. Meanwhile, the rest of the message waits in the kernel's
// buffers.
func (m *messageMemory) Take(n int) (int, error) {
	ctx, cancel := context.WithTimeout(m.ctx, memoryTime)
	defer cancel()
	taken, err := m.account.Wait(ctx, observe.LimitMemory, int64(n))
	if err != nil {
		return 0, errNoMemory
	}
	return int(taken), nil
}

// Give implements websocket.Memory.
func (m *messageMemory) Give(n int) { m.account.Give(observe.LimitMemory, int64(n)) }
