package rendezvous

import (
	"fmt"
	"io"
)

// What has the key of signatures, or is sent with a credential in it, prints as
// [redacted]. Encoders either leave such fields out or are what they are for.

func redact(w fmt.State) { _, _ = io.WriteString(w, "[redacted]") }

// Format writes [redacted].
func (signer) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (registerResponse) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (connectResponse) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (validateRequest) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (authorizations) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (Keys) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (*registry) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (*Server) Format(w fmt.State, _ rune) { redact(w) }
