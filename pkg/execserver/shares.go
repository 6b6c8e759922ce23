package execserver

import (
	"os"
	"strconv"
	"strings"

	"codex.internal/pkg/execserver/files"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/wsauth"
)

// shared is the table of what all clients of a server have together (docs/protocol.md, "Limits"); pkg/execserver/share
// divides it.
func (o *Options) shared() map[observe.Limit]int64 {
	return map[observe.Limit]int64{
		observe.LimitConnections: int64(o.MaxConnections),
		observe.LimitWatches:     min(files.MaxServerWatches, max(1, inotifyInstances()/2)),
		observe.LimitFileCalls:   files.MaxFileCalls,
		observe.LimitMemory:      answerMemory,
	}
}

// inotifyInstances is how many watches the machine lets this user have in all programs.
func inotifyInstances() int64 {
	const usual = 128 // of the kernel, where /proc does not tell
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

// hasWhole reports whether a client has no share but may take everything that is free: the user of the
// server's own machine, and whoever needs not say who he is.
func (srv *Server) hasWhole(grant wsauth.Grant) bool {
	return srv.keeper != nil || grant.Principal == "" || grant.Principal == anybody || strings.HasPrefix(grant.Principal, userPrefix)
}
