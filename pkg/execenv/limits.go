package execenv

import (
	"math"
	"time"
)

const (
	// keepAlive is the interval of pings to an idle server. A dead server is detected after
	// two and a half intervals, in less than 20 s.
	keepAlive = 7 * time.Second

	// maxSaid is how much of ssh's output is kept: its last line has the reason.
	maxSaid = 4 << 10

	// sharedTime is how long ssh keeps a shared connection that no command uses.
	sharedTime = 5 * time.Minute

	// maxSocketDir is the longest directory for sockets of ssh, in bytes. A socket's path has at most
	// 107 bytes, of which ssh needs 58: 40 for the name, the rest for a temporary suffix.
	maxSocketDir = 107 - 58

	// maxTokenBytes bounds a file with a token.
	maxTokenBytes = 64 << 10

	// maxFileBytes bounds environments.toml, which is written by hand.
	maxFileBytes = 1 << 20

	// maxPEMBytes bounds a file of certificates or of a key: those of all public authorities
	// have 250 KB.
	maxPEMBytes = 1 << 20

	// maxIDBytes is the longest id of an environment, as in Codex CLI.
	maxIDBytes = 64

	// maxSeconds is the longest timeout that fits into a time.Duration.
	maxSeconds = float64(math.MaxInt64 / int64(time.Second))
)
