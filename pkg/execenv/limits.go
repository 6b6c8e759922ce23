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
