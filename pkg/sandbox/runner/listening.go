package runner

import (
	"net/netip"
	"os"
)

// Family is the processes of one command.
type Family struct {
	Pids []int
	// Network is the network whose ports count, as OpenNetwork returns it; nil: this
	// program's.
	Network *os.File
}

// Listener is a TCP socket on which a process listens.
type Listener struct {
	Address netip.AddrPort
	Pid     int
	Command string // the command line of the process; untrusted text
}
