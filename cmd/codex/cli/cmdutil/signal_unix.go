//go:build unix

package cmdutil

import (
	"os/signal"
	"syscall"
	"time"
)

// dieWait is how long the program waits for the signal that it sends itself.
const dieWait = time.Second

// Die ends the program by a signal, so that a shell that runs a script ends the script, too. It returns if the
// signal does not end the program.
func Die(sig syscall.Signal) {
	signal.Reset(sig)
	if syscall.Kill(syscall.Getpid(), sig) == nil {
		time.Sleep(dieWait)
	}
}
