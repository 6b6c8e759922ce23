package signin

import (
	"fmt"
	"io"
)

// Package fmt does not call the methods of a Secret in a field that is not
// exported, nor behind a pointer that a verb is not made for: it prints the
// text. So what has a Secret, or a body in which there is one, prints as
// [redacted] itself. Other encoders leave such fields out.

func redact(w fmt.State) { _, _ = io.WriteString(w, redacted) }

// Format writes [redacted].
func (Tokens) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (Auth) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (agentRecord) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (apiKey) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (accessToken) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (*chatGPT) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (agent) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (*callback) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (grant) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (request) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (answer) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (deviceCode) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (document) Format(w fmt.State, _ rune) { redact(w) }

// Format writes [redacted].
func (field) Format(w fmt.State, _ rune) { redact(w) }
