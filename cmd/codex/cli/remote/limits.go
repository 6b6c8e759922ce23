package remote

import "time"

const (
	// inputChunk is how much of an input is read at a time, in bytes: the capacity of a pipe
	// on Linux.
	inputChunk = 64 << 10

	// keysWaiting and keysAtOnce bound typed or pasted keys that wait to be sent: 1 MiB. Keys
	// are read while the connection is blocked, because ~. must work then.
	keysWaiting = 1024
	keysAtOnce  = 1 << 10

	// maxReplay bounds the input that is kept for a retry, in bytes. A command that got more
	// is not retried.
	maxReplay = 1 << 20

	// maxAnswer bounds the answer to a question, in bytes: the least that a terminal takes in
	// one line (MAX_CANON).
	maxAnswer = 255

	// maxNetworkQuestions bounds the questions about hosts for one command (--ask-network). A
	// user who is asked more often stops reading.
	maxNetworkQuestions = 32
	// networkAskTime is the time for an answer. Programs give up a connection earlier; this
	// only ends a question that nobody sees.
	networkAskTime = 10 * time.Minute
	// maxRemembered bounds the answers about hosts that are kept for the session. Further
	// answers count once.
	maxRemembered = 4096
	// maxProtocol bounds the name of a protocol in a question, in bytes: known ones have 13 at
	// most, and it must fit a line.
	maxProtocol = 32
	// maxLine is the longest line of exec --shell, in characters: the limit of the line
	// editor.
	maxLine = 4096

	// maxMarker bounds the report of a shell's directory, in bytes: the longest path on Linux.
	maxMarker = 4096

	// syncPaths is how many paths sync requests in one archive: with long ones, 4 MiB of text.
	syncPaths = 32_768
	// maxIgnoreFile is the largest .gitignore file, in bytes.
	maxIgnoreFile = 1 << 20

	// resumeTries is how often an interrupted archive is started again without progress.
	// Otherwise a connection that always breaks would be tried forever.
	resumeTries = 5

	// copiesInFlight is how many files and directories are copied or listed at a time, from
	// and to servers without archives or attributes. With a round trip of 50 ms, 1,000 of them
	// take 1.6 s instead of 50 s. It is a quarter of the files that a server keeps open for a
	// client, so that other work of the session continues.
	copiesInFlight = 32

	// smallFile is the largest file that is copied in one message, in bytes: with all that are
	// copied at a time, 8 MiB. largeInFlight is how many larger files are copied at a time.
	// Each has several blocks of 1 MiB in flight, so more would not be faster.
	smallFile     = 256 << 10
	largeInFlight = 4

	// wholeLimit is the largest file that is sent in one message: to servers that do not take
	// blocks, and into devices.
	wholeLimit = 48 << 20

	// maxEdited is the largest file for codex remote edit, in bytes: it is held in memory, and
	// servers that do not take blocks get it in one message.
	maxEdited = wholeLimit

	// watchPause is how long nothing must change before codex remote watch runs its command:
	// programs write several files in a row.
	watchPause = 100 * time.Millisecond

	// maxListed bounds the entries of a tree that sync compares, and maxListedNames their
	// names and the targets of links, in bytes. Both trees are held in memory, with 500 bytes
	// for an entry, and a server could list endless ones.
	maxListed      = 2_000_000
	maxListedNames = 512 << 20

	// redialPause is the time between reconnection attempts of codex remote sync --watch: a
	// restarted server is found after one, and attempts for hours are no load.
	redialPause = 2 * time.Second

	// syncGather is for how long codex remote sync collects further changes after a first one:
	// most programs write and rename related files within it. It is not extended, so that a
	// file that changes all the time is still copied.
	syncGather = 200 * time.Millisecond
	// maxPending bounds the paths that wait for a round of codex remote sync, each with the
	// directories above it. With more, comparing both trees costs little more.
	maxPending = syncPaths / 2

	// maxMatches bounds the matches of a pattern: more are probably a mistake.
	maxMatches = 10_000

	// lookForReader is how often opening a FIFO without a reader is tried again: soon enough
	// for a user, and no load.
	lookForReader = 50 * time.Millisecond

	// maxLogStart is how many bytes of a line are examined to recognize a server's log: time
	// and level come first.
	maxLogStart = 128

	// maxSignals bounds the signals that wait to be sent to a command. Further ones add
	// nothing.
	maxSignals = 8

	// exitKilled is the exit code of a command that was killed.
	exitKilled = 128 + 9

	// maxIDBytes bounds the part of a process's id that is the command's name.
	maxIDBytes = 32

	// settleTime is how long a question is on the screen before keys count as its answer.
	// No user answers faster. By then the terminal's replies to queries of the command have
	// arrived, which must not count as an answer.
	settleTime = 250 * time.Millisecond

	// secondInterrupt is the time within which a second interrupt kills the remote command.
	secondInterrupt = 2 * time.Second

	// killTime bounds the request to kill a command, and the wait for its last output.
	killTime = 5 * time.Second
)
