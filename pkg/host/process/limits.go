package process

import "time"

const (
	// MaxChunk is the most output that one event carries, and the size of a read. It equals the
	// default capacity of a pipe.
	MaxChunk = 64 << 10

	// keepWhole is the size from which a read's buffer itself becomes the
	// retained chunk. Smaller reads are copied, so that a retained chunk
	// never takes more than twice its size in memory.
	keepWhole = MaxChunk / 2

	// MaxRetained is how much of its newest output a process retains.
	MaxRetained = 1 << 20

	// maxChunks bounds the number of retained chunks, because a tiny chunk costs more memory than
	// its bytes.
	maxChunks = 16 << 10

	// MinWindow is the smallest window of unacknowledged output. With a smaller window, every chunk
	// would wait for an acknowledgement.
	MinWindow = MaxChunk
	// MaxWindow is the largest window. Together with the chunk that may exceed it, it is well
	// within MaxRetained. So a client that lost its connection can read all output that it has not
	// acknowledged.
	MaxWindow = MaxRetained / 2
	// maxUnacked bounds the number of unacknowledged events for the same reason: only maxChunks of
	// them are retained.
	maxUnacked = maxChunks / 2

	// maxHeldInput is how many bytes of accepted input are held for a process whose pipe is full.
	// So a client that waits for the answers to its writes can continue while the program does not
	// read yet. It equals the limit on retained output.
	maxHeldInput = 1 << 20
	// inputBuffer is the size of the buffers for held input; it equals the capacity of a pipe. A
	// write of less than pooledInput is copied to separate memory, so that held input takes at most
	// four times its size.
	inputBuffer = 64 << 10
	pooledInput = inputBuffer / 4

	// rememberedWrites is how many write ids a process remembers.
	rememberedWrites = 4096

	// drainTime is how long a terminal may have no output before the exit is reported: the kernel
	// delivers terminal output from a work queue, with a delay. The bytes in a pipe can be counted,
	// so a pipe needs no wait.
	drainTime = 20 * time.Millisecond

	// drainTerminal bounds the bytes that are read from a terminal before the exit is reported. The
	// kernel buffers less than this.
	drainTerminal = 256 << 10

	// cutTime is how long, after Terminate, a process that could not be killed may hold the output
	// open.
	cutTime = 250 * time.Millisecond

	// leftoverTime is how long the descendants of an exited process may still run after Terminate.
	// Codex CLI does not kill them at all. With this delay clients still get their last output.
	leftoverTime = 1500 * time.Millisecond

	// settleTime is how long a killed program with Spec.ExitGracePeriod may take to kill its own
	// descendants. On an idle machine that takes less than a millisecond.
	settleTime = 100 * time.Millisecond
	// janitorTime is how long processes named JanitorName may run after that. A busy machine may
	// not schedule them for a while.
	janitorTime = 3 * time.Second

	// janitorPoll is the interval of the checks whether janitors have ended.
	janitorPoll = 5 * time.Millisecond

	// maxLookups bounds how many starts look for a program or a directory at a time. Each may
	// occupy a thread for as long as a file system hangs. Further starts wait.
	maxLookups = 32

	// freezeRounds bounds how often the process table is searched for descendants, because they may
	// be started faster than they are stopped.
	freezeRounds = 64

	// defaultRows and defaultCols are a terminal's first size.
	defaultRows, defaultCols = 24, 80

	// defaultPath is where a program is looked up if the environment has no PATH, as with execvp.
	defaultPath = "/bin:/usr/bin"

	// maxEnding bounds the processes that have reported their exit code but whose resources the
	// system still frees. Such processes no longer count for a client. Freeing takes a few
	// milliseconds for each. If the limit is reached, the exit of further processes is reported
	// when they end.
	maxEnding = 32

	// rememberedLeaders bounds the ended session leaders that a group without a cgroup remembers.
	// When the group ends, their sessions are searched for survivors.
	rememberedLeaders = 64 << 10
)
