package remote

import "time"

const (
	// inputChunk is the size of one read of an input, in bytes: the capacity of a pipe on Linux.
	inputChunk = 64 << 10

	// keysWaiting and keysAtOnce bound typed or pasted keys that wait to be sent: 1 MiB. Keys
	// are read while the connection is blocked, because ~. must work then.
	keysWaiting = 1024
	keysAtOnce  = 1 << 10

	// maxReplay bounds the input that is retained for a retry, in bytes. A command that has read
	// more is not retried.
	maxReplay = 1 << 20

	// maxAnswer bounds the answer to a question, in bytes: the minimum that a terminal accepts in
	// one line (MAX_CANON).
	maxAnswer = 255

	// lastOutput is how much of the end of a command's output is searched for errors about the network.
	lastOutput = 4 << 10
	// maxNetworkQuestions bounds the questions about hosts for one command (--ask-network). A user
	// who gets more questions stops reading them.
	maxNetworkQuestions = 32
	// networkAskTime is the time for an answer. Programs give up a connection earlier; this limit
	// only ends a question that nobody sees.
	networkAskTime = 10 * time.Minute
	// maxRemembered bounds the answers about hosts that are retained for the session. Further
	// answers apply only once.
	maxRemembered = 4096
	// maxProtocol bounds the name of a protocol in a question, in bytes. Known names have at most
	// 13 bytes, and the name must fit on a line.
	maxProtocol = 32
	// maxLine is the longest line of exec --shell, in characters: the limit of the line
	// editor.
	maxLine = 4096

	// maxMarker bounds the report of a shell's directory, in bytes: the longest path on Linux.
	maxMarker = 4096

	// maxTail bounds the lines of logs --tail: so many empty lines take 48 MiB.
	maxTail = 1 << 20
	// maxTailBytes bounds the output that logs --tail holds, in bytes, if its lines are long.
	maxTailBytes = 64 << 20

	// lookForEnd is how often stop asks whether a process has ended.
	lookForEnd = 100 * time.Millisecond

	// syncPaths is the number of paths that sync requests in one archive: with long paths, 4 MiB of text.
	syncPaths = 32_768
	// maxIgnoreFile is the largest .gitignore file, in bytes.
	maxIgnoreFile = 1 << 20

	// resumeTries is the number of times that an interrupted archive is started again without
	// progress. Without this limit, a connection that always breaks would be tried forever.
	resumeTries = 5

	// copiesInFlight is the number of files and directories that are copied or listed at a time,
	// from and to servers without archives or attributes. With a round trip of 50 ms, 1,000 files
	// take 1.6 s instead of 50 s. The number is a quarter of the files that a server keeps open for
	// a client, so that other work of the session continues.
	copiesInFlight = 32

	// smallFile is the largest file that is copied in one message, in bytes. All small files that are
	// copied at a time have 8 MiB. largeInFlight is the number of larger files that are copied at a
	// time. Each has several blocks of 1 MiB in flight, so a larger number would not be faster.
	smallFile     = 256 << 10
	largeInFlight = 4

	// wholeLimit is the largest file that is sent in one message, in bytes: to servers that do not
	// support blocks, and to devices.
	wholeLimit = 48 << 20

	// maxEdited is the largest file for codex remote edit, in bytes. The file is held in memory,
	// and servers that do not support blocks get it in one message.
	maxEdited = wholeLimit

	// watchPause is the time without a change after which codex remote watch runs its command.
	// Programs write several files in a row.
	watchPause = 100 * time.Millisecond

	// maxListed bounds the entries of a tree that sync compares, and maxListedNames their names and
	// the targets of links, in bytes. Both trees are held in memory, with 500 bytes for an entry,
	// and a server could list an endless number of entries.
	maxListed      = 2_000_000
	maxListedNames = 512 << 20

	// redialPause is the time between reconnection attempts of codex remote sync --watch. A
	// restarted server is reached within one pause, and attempts over hours cause no load.
	redialPause = 2 * time.Second

	// syncGather is the time for which codex remote sync collects further changes after a first
	// one. Most programs write and rename related files within this time. Further changes do not
	// extend it, so that a file that changes all the time is still copied.
	syncGather = 200 * time.Millisecond
	// maxPending bounds the paths that wait for a round of codex remote sync, each with the
	// directories above it. If there are more, comparing both trees costs little more.
	maxPending = syncPaths / 2

	// maxMatches bounds the matches of a pattern. More matches are probably a mistake.
	maxMatches = 10_000

	// lookForReader is the pause between attempts to open a FIFO without a reader: short enough for
	// a user, and no load.
	lookForReader = 50 * time.Millisecond

	// maxLogStart is the number of bytes of a line that are examined to recognize a server's log.
	// Time and level come first.
	maxLogStart = 128

	// maxSignals bounds the signals that wait to be sent to a command. Further signals have no
	// effect.
	maxSignals = 8

	// exitKilled is the exit code of a command that was killed.
	exitKilled = 128 + 9

	// maxIDBytes bounds the part of a process's id that is the command's name, in bytes.
	maxIDBytes = 32

	// settleTime is the time that a question must be on the screen before keys count as its answer.
	// No user answers faster. By then the terminal's replies to queries of the command, which must
	// not count as an answer, have arrived.
	settleTime = 250 * time.Millisecond

	// secondInterrupt is the time within which a second interrupt kills the remote command.
	secondInterrupt = 2 * time.Second

	// killTime bounds the time of the request that kills a command, and the wait for the command's last output.
	killTime = 5 * time.Second
)
