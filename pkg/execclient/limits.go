package execclient

import "time"

const (
	// DefaultClientName is what a bare client calls itself.
	DefaultClientName = "codex-core"
	// DefaultConnectTimeout bounds the dial with its HTTP upgrade.
	DefaultConnectTimeout = 10 * time.Second
	// DefaultInitializeTimeout bounds initialize and initialized together.
	DefaultInitializeTimeout = 10 * time.Second

	// maxEvents and maxEventBytes bound the events of a process that its
	// consumer has not taken yet.
	maxEvents     = 256
	maxEventBytes = 1 << 20

	// blockSize is the size of streamed reads and writes, and blocksInFlight
	// how many of them are under way at a time.
	blockSize      = 1 << 20
	blocksInFlight = 4

	// stdinChunk is the size of a write to a process's stdin.
	stdinChunk = 64 << 10

	// maxMessage bounds an incoming message: a file of 512 MiB in base64.
	maxMessage = 768 << 20

	// childGrace is how long a server that was started as a command may take
	// to end after its stdin has ended.
	childGrace = 2 * time.Second
)
