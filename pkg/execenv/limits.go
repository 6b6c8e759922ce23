package execenv

import (
	"math"
	"time"
)

const (
	// keepAlive is how often a silent server is asked whether it is there. A dead one
	// is noticed after two and a half, which is less than 20 s: so long a person waits.
	keepAlive = 7 * time.Second

	// maxSaid is how much is kept of what ssh says: its reason is the last line.
	maxSaid = 4 << 10

	// maxTokenBytes bounds a file with a token.
	maxTokenBytes = 64 << 10

	// maxFileBytes bounds what is read of environments.toml, which people
	// write by hand.
	maxFileBytes = 1 << 20

	// maxPEMBytes bounds a file of certificates or of a key: those of all public
	// authorities together have 250 KB.
	maxPEMBytes = 1 << 20

	// maxIDBytes is the longest id of an environment, as in Codex CLI.
	maxIDBytes = 64

	// maxSeconds is the longest timeout that a time.Duration can hold.
	maxSeconds = float64(math.MaxInt64 / int64(time.Second))
)
