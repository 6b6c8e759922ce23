package cmdutil

import (
	"os"
	"os/signal"
	"slices"
)

// NotIgnored returns those of the signals that this program does not ignore. What is
// ignored from the start, SIGHUP by nohup or SIGINT by a shell's background job, is to
// stay ignored; signal.Notify would end that. Go keeps that of these two only.
func NotIgnored(signals ...os.Signal) []os.Signal { return slices.DeleteFunc(signals, signal.Ignored) }

// Catch is signal.Notify for those of the signals that are not ignored.
func Catch(to chan<- os.Signal, signals ...os.Signal) {
	for _, sig := range NotIgnored(signals...) { // none at all would mean all to Notify
		signal.Notify(to, sig)
	}
}
