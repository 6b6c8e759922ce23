package tokens

import "time"

const (
	// maxTokens is the most tokens that a file may have. The file is read as a whole when it has
	// changed.
	maxTokens = 10_000
	// MaxFile is the most bytes of a file.
	MaxFile = 16 << 20
	// MaxName bounds the name of a token.
	MaxName = 128
	// MaxText bounds a token's text.
	MaxText = 256
	// lockTime bounds the wait for another command that changes the file.
	lockTime = 5 * time.Second
	// fileVersion is the version of the file format.
	fileVersion = 1
)
