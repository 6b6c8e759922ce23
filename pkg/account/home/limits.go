package home

const (
	// maxFileBytes bounds .env and config.toml, which people write by hand, and
	// the expanded references of .env. A link to /dev/zero gives an error.
	maxFileBytes = 1 << 20

	// janitorBatch is how many entries of the directory of alias directories are
	// read at a time. Killed servers leave theirs behind, so their number has no
	// limit.
	janitorBatch = 64

	// aliasTries is how many random names are tried for the directory of
	// aliases. Two of them are the same once in 57 thousand million times.
	aliasTries = 16
)
