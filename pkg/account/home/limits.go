package home

const (
	// maxFileBytes bounds what is read of .env and of config.toml, which
	// people write by hand, and what the references in .env may become. Who
	// links them to /dev/zero gets an error.
	maxFileBytes = 1 << 20

	// janitorBatch is how many entries of the directory of alias directories
	// are read at a time: servers that were killed leave theirs behind, without a
	// limit.
	janitorBatch = 64

	// aliasTries is how many random names are tried for the directory of
	// aliases. Two of them are the same once in 57 thousand million times.
	aliasTries = 16
)
