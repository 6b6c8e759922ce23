package shellsnapshot

const (
	// maxPiece bounds one variable, in bytes: the kernel refuses texts of more
	// than 128 KiB in an environment.
	maxPiece = 96 << 10
	// maxPieces bounds the number of variables. Environment and arguments together may have 2 MiB
	// if the stack has the usual 8 MiB. States of 600 KB are known.
	maxPieces = 10
	// MaxOutput bounds the input of Parse, in bytes: a state, and the environment. The caller must
	// enforce it.
	MaxOutput = 4 << 20
)
