package shellsnapshot

const (
	// maxPiece bounds one variable, in bytes: the kernel refuses texts of more
	// than 128 KiB in an environment.
	maxPiece = 96 << 10
	// maxPieces bounds their number. Environment and arguments together may have
	// 2 MiB where the stack has the usual 8 MiB. States of 600 KB are known.
	maxPieces = 10
	// MaxOutput bounds the input that Parse should get, in bytes: a state, and
	// the environment.
	MaxOutput = 4 << 20
)
