package natsbus

import "fmt"

// What has a password or the key of the service in it is not printed, whoever
// tries.

// Format writes [redacted].
func (Options) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (*State) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (*Node) Format(w fmt.State, _ rune) { redact(w) }

func redact(w fmt.State) {
	_, _ = w.Write([]byte("[redacted]")) // into memory
}
