package tunnels

import "time"

const (
	// maxTunnels bounds the tunnels of a session: each has a descriptor, and keeps at
	// most two windows of bytes.
	maxTunnels = 2048
	// maxBytes bounds the windows of a session's tunnels together, beyond the least
	// ones, in each direction: what a client has the server keep by not reading, or by
	// having programs not read. With full windows 2,048 tunnels would keep 2 GiB. A browser's
	// hundred connections have full windows; of a thousand the later ones are slower, and
	// none waits for another. share is the part of what is left that one tunnel gets.
	maxBytes = 64 << 20
	share    = 32
	// maxListeners bounds the ports on which a session listens.
	maxListeners = 64
	// acceptPause is how long a listener waits after it could not accept a connection.
	acceptPause = 100 * time.Millisecond
	// maxDials bounds the connections of a session's tunnels that are being made;
	// others wait. dialTime is how long one may take.
	maxDials = 256
	dialTime = 30 * time.Second
	// maxReaching bounds the launchers of all sessions that make sockets inside
	// sandboxes at a time: each is a process of a few milliseconds; others wait.
	maxReaching = 8
	// portInterval is how often the ports are looked for on which processes listen, while a
	// client watches them: the kernel does not tell. A person who has started a server finds
	// its port forwarded before a browser is open. A look at a few processes takes less than
	// a millisecond. portShare bounds the work of many: after each look there is a pause of
	// so many times what it took, and one client at a time is served.
	portInterval = 500 * time.Millisecond
	portShare    = 20
	// maxPortProcesses bounds the processes that one look takes in.
	maxPortProcesses = 4096
	// maxPorts bounds the ports of one tunnel/ports.
	maxPorts = 256
	// maxHost bounds the name of a host, in bytes, as DNS does.
	maxHost = 255
)
