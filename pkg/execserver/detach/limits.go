package detach

import "time"

const (
	// maxKeepers bounds the detached processes of all owners. maxStoreEntries bounds the
	// entries of their directory that are examined.
	maxKeepers      = 256
	maxStoreEntries = 4096
	// maxRecord bounds the record of a detached process, most of which is its command line.
	// maxSettings bounds the settings of a keeper, which must fit into an empty pipe.
	maxRecord   = 2 << 20
	maxSettings = 32 << 10
	// secretBytes is the size of the secret that a server must present to a keeper.
	secretBytes = 32
	// maxDetachedRead bounds the output of one process/read of a detached process.
	maxDetachedRead = 1 << 20

	// keeperStartTime bounds the start of a process together with that of its keeper. A keeper
	// waits as long for the start.
	keeperStartTime = 60 * time.Second
	// keeperDialTime bounds a connection to a keeper, which is on the same machine.
	keeperDialTime = 10 * time.Second
	// keeperPause is the pause between attempts to reach a keeper that does not
	// listen yet or is about to end.
	keeperPause = 20 * time.Millisecond
	// keeperFlushTime bounds the export of spans when a keeper ends.
	keeperFlushTime = 3 * time.Second
	// maxSpansFile bounds the file with the numbers of dropped spans: two numbers with their
	// names.
	maxSpansFile = 256
	// keeperWait bounds one wait of a keeper for output: a keeper does not learn that a client
	// no longer waits.
	keeperWait = 20 * time.Second
	// describeTime bounds the request to one keeper for a list.
	describeTime = 2 * time.Second
	// expireInterval is how often the output of ended processes is checked.
	expireInterval = 10 * time.Minute
)
