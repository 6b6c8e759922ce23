package cmdutil

import (
	"os"
	"os/signal"
	"slices"
)

// NotIgnored returns the signals that this program does not ignore. nohup starts a program with SIGHUP ignored,
// and a shell starts background jobs with SIGINT ignored. signal.Notify would catch these signals, but they must
// stay ignored. The Go runtime leaves only these two ignored.
func NotIgnored(signals ...os.Signal) []os.Signal { return slices.DeleteFunc(signals, signal.Ignored) }

// Catch is signal.Notify for the signals that are not ignored.
func Catch(to chan<- os.Signal, signals ...os.Signal) {
	for _, sig := range NotIgnored(signals...) { // Notify without a signal would catch all signals
		signal.Notify(to, sig)
	}
}
