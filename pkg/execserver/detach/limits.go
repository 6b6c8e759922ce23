package detach

import "time"

const (
	// maxKeepers bounds the detached processes of all owners, and maxStoreEntries the entries
	// of their directory that are examined.
	maxKeepers      = 256
	maxStoreEntries = 4096
	// maxRecord bounds the record of a detached process, most of which is its command
	// line, and maxSettings those of a keeper: they are written into an empty pipe.
	maxRecord   = 2 << 20
	maxSettings = 32 << 10
	// secretBytes is the size of the secret that a keeper asks its servers for.
	secretBytes = 32
	// maxDetachedRead bounds the output of one process/read of a detached process.
	maxDetachedRead = 1 << 20

	// keeperStartTime bounds a start with its keeper, and how long a keeper waits for it.
	keeperStartTime = 60 * time.Second
	// keeperDialTime bounds a connection to a keeper, which is on the same machine.
	keeperDialTime = 10 * time.Second
	// keeperPause is the pause between attempts to reach a keeper that does not
	// listen yet or is about to end.
	keeperPause = 20 * time.Millisecond
	// keeperFlushTime bounds how long a keeper waits for the collector of traces after that.
	keeperFlushTime = 3 * time.Second
	// maxSpansFile bounds the numbers of dropped spans that a keeper leaves: two, with their names.
	maxSpansFile = 256
	// keeperWait is how long a keeper is asked to wait at a time: it is not told when a
	// client no longer waits.
	keeperWait = 20 * time.Second
	// describeTime bounds the question to one keeper for a list.
	describeTime = 2 * time.Second
	// expireInterval is how often the output of ended processes is checked.
	expireInterval = 10 * time.Minute
)
