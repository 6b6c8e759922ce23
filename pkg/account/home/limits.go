package home

const (
	// maxFileBytes bounds .env and config.toml, which people write by hand, and the expanded
	// references of .env. A link to /dev/zero is therefore an error.
	maxFileBytes = 1 << 20

	// janitorBatch is how many entries of the parent of the alias directories are read at a time.
	// Killed servers leave their alias directories behind, so the number of entries has no limit.
	janitorBatch = 64

	// aliasTries is how many random names are tried for the directory of aliases. The probability
	// that two names are equal is 1 in 57 thousand million.
	aliasTries = 16
)
