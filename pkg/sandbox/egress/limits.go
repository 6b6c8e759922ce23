package egress

import "time"

const (
	// maxConnections bounds the connections that one process's proxy serves at a
	// time. A browser keeps 256 at most. Further ones are refused. Only four
	// hostile processes together can use up the connections of a Host.
	maxConnections = 256
	// DefaultConnections bounds the connections of all proxies of a Host. Each
	// takes two descriptors of the server, maxAttempts more while it connects, and a
	// tunnel up to six while data is in flight: 1024 leave most of a usual limit
	// (20,000) to processes. Their heads take 200 MB at most, and the large ones 50 MB.
	DefaultConnections = 1024
	// acceptPause is how long accepting pauses after an error, such as a
	// shortage of descriptors, which may be temporary.
	acceptPause = 50 * time.Millisecond

	// maxHead bounds the bytes of a request's head: Codex CLI accepts 460,800
	// and refuses 500,000.
	maxHead = 480_000
	// smallHead is the size up to which a head needs no slot: browsers and package
	// managers send less than 16 KiB. maxLargeHeads bounds the larger heads of one
	// process, and maxAllLargeHeads those of all, until their requests are
	// answered: a parsed head takes three times its size.
	smallHead        = 64 << 10
	maxLargeHeads    = 4
	maxAllLargeHeads = 32
	// maxHeaders bounds the header lines of a request, as Codex CLI does.
	maxHeaders = 99
	// maxAnswerHead bounds the head of an answer from outside: no known server
	// sends more than 64 KiB.
	maxAnswerHead = 1 << 20
	// maxDrain bounds the body of a refused request that is read so that the
	// connection can be used again; beyond it the connection is closed.
	maxDrain = 256 << 10
	// maxTrailer bounds the lines after a chunked body, which are dropped.
	maxTrailer = 64 << 10
	// copyBuffer is how many bytes of a body are copied at a time.
	copyBuffer = 64 << 10
	// readBuffer is the size of the buffer for heads of each connection from the process.
	readBuffer = 16 << 10

	// testTime bounds the test connection of Works.
	testTime = 5 * time.Second

	// headTime bounds how long a head may take, and how long a connection may
	// be idle between requests, as with Codex CLI.
	headTime = 30 * time.Second
	// helloTime is how long a connection to port 443 of an address waits for the
	// name in the first message of TLS: clients send it at once.
	helloTime = 5 * time.Second
	// lingerTime is how long the proxy still reads from a connection after its last answer. If it
	// closed the connection with unread data, the kernel would reset the connection, and the
	// process could lose the answer.
	lingerTime = time.Second
	// continueTime is how long a body waits for the far side's 100 Continue.
	continueTime = time.Second

	// resolveTime bounds the resolution of a name, as with Codex CLI.
	resolveTime = 2 * time.Second
	// maxAddresses bounds the addresses of a name that are tried.
	maxAddresses = 16
	// connectTime bounds connecting to a host, over all its addresses.
	connectTime = 30 * time.Second
	// nextAddressTime is how long one address may take before the next one is
	// tried in parallel (RFC 8305, section 5).
	nextAddressTime = 250 * time.Millisecond
	// maxAttempts bounds the concurrent connection attempts, each of which takes
	// attemptTime at most: a name with sixteen addresses that do not answer would
	// take as many descriptors.
	maxAttempts = 4
	attemptTime = 8 * time.Second
	// idleOutside and idleOutsideTime bound the idle connections to hosts.
	idleOutside     = 32
	idleOutsideTime = 30 * time.Second

	// askGrace is added to the time limit that the client has set for an answer, so that an answer
	// sent at the last moment still counts.
	askGrace = 5 * time.Second
	// maxQuestions bounds the unanswered questions of one process, as many as a client answers at a time. Each occupies one of
	// the process's connections.
	maxQuestions = maxConnections
	// maxReason bounds the reason in an answer, because refusals repeat it.
	maxReason = 1024

	// maxNames bounds the names that a process resolves by DNS: a browser needs some
	// hundred. Each takes 300 bytes. maxRefusedNames bounds the refused names that are
	// reported, each once; further ones are refused without a report.
	maxNames        = 4096
	maxRefusedNames = 256
	// maxQuery bounds a DNS query: it has one name, of 255 bytes at most.
	maxQuery = 1232
	// nameTTL is how long an answer may be cached, in seconds. It is valid for the
	// life of the process.
	nameTTL = 60

	// maxInjections bounds the credentials of an egress policy: each process's
	// proxy makes a placeholder for each, and looks for all of them.
	maxInjections = 64
	// maxValueFile bounds the file of a credential, and minValue and maxValue the
	// credential: a shorter one would occur in answers by chance, and servers refuse
	// longer headers.
	maxValueFile = 16 << 10
	minValue     = 8
	maxValue     = 8 << 10
	// maxUpstreamCA bounds a file of certificate authorities, and maxBundle the
	// system's: Debian's has 220 KB.
	maxUpstreamCA = 1 << 20
	maxBundle     = 8 << 20
	// maxBundles bounds the directories that a server examines when it starts.
	maxBundles = 4096
	// maxHeaderName bounds the names of headers, schemes and variables.
	maxHeaderName = 128
	// placeholderBytes is how many random bytes a placeholder has, too many to guess.
	placeholderBytes = 16
	// authorityTime is how long the certificate authority of a process is valid. Its key exists
	// only while the process runs, which may be years. leafTime is the same for the certificate of
	// a host. Both begin clockSkew in the past: both sides use the same clock, but a program may
	// compare with the time of its own start.
	authorityTime = 10 * 365 * 24 * time.Hour
	leafTime      = 24 * time.Hour
	clockSkew     = time.Hour

	// maxRecords bounds the records of one process in the server's log, of 300 bytes each. More are
	// not needed to find a cause, and process/exited counts the refusals of each host.
	maxRecords = 256

	// maxHostBytes is the length of the longest DNS name.
	maxHostBytes = 253
	// maxPatterns bounds the patterns of a policy, each of which is compared
	// with each host.
	maxPatterns = 16384
)
