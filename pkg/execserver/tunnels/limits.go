package tunnels

import "time"

const (
	// maxTunnels bounds the tunnels of a session. Each has a descriptor, and buffers at most
	// two windows of bytes.
	maxTunnels = 2048
	// maxBytes bounds the sum of the windows of a session's tunnels in each direction, without
	// their minimum sizes. This bounds the memory that a client can use up in the server by not
	// reading, or with programs that do not read. With full windows 2,048 tunnels would use 2
	// GiB. The hundred connections of a browser get full windows. Of a thousand connections the
	// later ones are slower, but no connection waits for another. A tunnel gets 1/parts of the
	// remaining bytes.
	maxBytes = 64 << 20
	parts    = 32
	// maxListeners bounds the ports on which the server listens for a session.
	maxListeners = 64
	// acceptPause is how long a listener waits after it could not accept a connection.
	acceptPause = 100 * time.Millisecond
	// maxDials bounds the concurrent connection attempts of a session's tunnels;
	// others wait. dialTime bounds one attempt.
	maxDials = 256
	dialTime = 30 * time.Second
	// maxReaching bounds the launchers, of all sessions, that concurrently make sockets inside
	// of sandboxes; further requests wait. Each is a process that runs for a few milliseconds.
	maxReaching = 8
	// portInterval is how often the listening ports of processes are polled while a client
	// watches them, because the kernel sends no event. It is short enough that the port of a
	// new server is forwarded before the user has opened a browser. Polling a few processes
	// takes less than a millisecond. portShare bounds the work for many processes: the pause
	// after a poll is portShare times the duration of the poll, and only one client's poll runs
	// at a time.
	portInterval = 500 * time.Millisecond
	portShare    = 20
	// maxPortProcesses bounds the processes that one poll examines.
	maxPortProcesses = 4096
	// maxPorts bounds the ports of one tunnel/ports.
	maxPorts = 256
	// maxHost bounds the length of a host name, in bytes, as DNS does.
	maxHost = 255
)
