package remote

import "time"

const (
	// inputChunk is how much of an input is read at a time, in bytes: what a
	// pipe of Linux holds.
	inputChunk = 64 << 10

	// keysWaiting and keysAtOnce bound what was typed, or pasted, and waits to be sent:
	// 1 MiB. Keys are read meanwhile, because ~. is one of them.
	keysWaiting = 1024
	keysAtOnce  = 1 << 10

	// maxReplay bounds what is kept of a command's input for a retry, in
	// bytes. A command that was sent more is not retried.
	maxReplay = 1 << 20

	// maxAnswer bounds the answer to a question, in bytes: what a terminal
	// takes in one line at least (MAX_CANON).
	maxAnswer = 255

	// maxNetworkQuestions bounds the questions about hosts that one command makes
	// codex ask (--ask-network). A person who is asked more often stops reading.
	maxNetworkQuestions = 32
	// networkAskTime is how long a person has for one of them. Programs give up a
	// connection earlier; this only ends a question that nobody sees.
	networkAskTime = 10 * time.Minute
	// maxRemembered bounds the answers about hosts that are kept for the session;
	// further ones count once.
	maxRemembered = 4096
	// maxProtocol bounds the name of a protocol in a question, in bytes: those that
	// servers know have 13 at most, and it must fit a line.
	maxProtocol = 32
	// maxLine is the longest line of a session, in characters: the line
	// editor takes no more.
	maxLine = 4096

	// maxMarker bounds the report of a shell's directory, in bytes: the
	// longest path of Linux.
	maxMarker = 4096

	// syncPaths is how many paths of one archive sync asks for: with long ones, 4 MiB of
	// text.
	syncPaths = 32_768
	// maxIgnoreFile is the largest .gitignore file, in bytes.
	maxIgnoreFile = 1 << 20

	// resumeTries is how often an archive that was cut is begun again without that any
	// file has come meanwhile: a connection that breaks each time must not be tried for
	// ever.
	resumeTries = 5

	// copiesInFlight is how many files and directories are copied, or asked about, at a
	// time, where a server knows no archives and lists no attributes. With a round trip of
	// 50 ms, 1,000 of them take 1.6 s instead of 50 s. It is a quarter of the files that a
	// server has open at a time, so that other work of the same session goes on.
	copiesInFlight = 32

	// smallFile is the largest file, in bytes, that is copied in one message: as many as
	// are copied at a time are 12 MiB. largeInFlight is how many larger ones are copied at a time: each has
	// several blocks of 1 MiB under way, so more would not be faster.
	smallFile     = 256 << 10
	largeInFlight = 4

	// wholeLimit is the largest file that is sent in one message, to servers that take
	// no blocks, and into devices.
	wholeLimit = 48 << 20

	// maxEdited is the largest file that is edited, in bytes: it is in memory whole, and
	// for servers that take no blocks in one message.
	maxEdited = wholeLimit

	// watchPause is how long nothing must have changed before codex remote watch runs its
	// command: programs write several files at a time.
	watchPause = 100 * time.Millisecond

	// maxListed bounds the entries of a tree that sync compares, and maxListedNames their
	// names and the targets of links, in bytes: each tree is in memory whole, with 500 bytes
	// for an entry, and a server could list one without an end.
	maxListed      = 2_000_000
	maxListedNames = 512 << 20

	// redialPause is the time between attempts of codex remote sync --watch to connect again:
	// a server that starts anew is back after one, and attempts for hours are no load.
	redialPause = 2 * time.Second

	// syncGather is for how long codex remote sync gathers changes after a first one: most
	// programs write and rename what belongs together within it. It is not extended, so
	// that a file which is written all the time is copied all the same.
	syncGather = 200 * time.Millisecond
	// maxPending bounds the paths that wait for a round of codex remote sync, each with the
	// directories on the way to it. With more, both trees are looked at whole, which then
	// costs little more.
	maxPending = syncPaths / 2

	// maxMatches bounds what a pattern may match: more is not what the user expects.
	maxMatches = 10_000

	// lookForReader is how often a FIFO that nobody reads is tried again: soon
	// enough for a person, and no load.
	lookForReader = 50 * time.Millisecond

	// maxLogStart is how many bytes of a line are looked at to find out whether it is one
	// of a server's log: time and level come first.
	maxLogStart = 128

	// maxSignals bounds the signals that wait for a command to be told: who
	// sends more has been understood.
	maxSignals = 8

	// exitKilled is the exit code of a command that was killed.
	exitKilled = 128 + 9

	// maxIDBytes bounds what a process's id has of the command's name.
	maxIDBytes = 32

	// settleTime is how long a question is on the screen before keys count as its
	// answer. A person does not react faster, and the terminal's replies to queries
	// that the command has left behind arrive within this time.
	settleTime = 250 * time.Millisecond

	// secondInterrupt is how soon after an interrupt another one means that
	// the remote command is to be killed.
	secondInterrupt = 2 * time.Second

	// killPatience is how long the server may take to kill a command, and how
	// long to send its last output then.
	killPatience = 5 * time.Second
)
