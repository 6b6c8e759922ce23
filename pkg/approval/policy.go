package approval

import "fmt"

// Kind is when a person is asked.
type Kind uint8

// The kinds of policies. The zero value is the strict one.
const (
	// Never asks nobody: what the sandbox denies stays denied.
	Never Kind = iota
	// OnRequest asks before a command that is confined runs, and accepts what
	// the sandbox denies.
	OnRequest
	// OnFailure runs the command in the sandbox, and asks whether it may run
	// without one when that denied it something.
	OnFailure
	// Untrusted asks before every command. What was approved may also run
	// without the sandbox when that denied it something.
	Untrusted
	// Granular asks as OnRequest does and, after a denial, as OnFailure does;
	// Policy.SandboxPrompts says whether it may ask at all.
	Granular
)

// kinds are the words of the configuration.
var kinds = [...]string{"never", "on-request", "on-failure", "untrusted", "granular"}

// String returns the word of the configuration.
func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return "invalid"
}

// ParseKind returns the kind that a word of the configuration names:
// never, on-request, on-failure, untrusted or granular.
func ParseKind(word string) (Kind, error) {
	for k, known := range kinds {
		if word == known {
			return Kind(k), nil
		}
	}
	return Never, fmt.Errorf("unknown approval policy %q: there are never, on-request, on-failure, untrusted and granular", word)
}

// Policy says when a person is asked. The zero value never asks.
type Policy struct {
	Kind Kind
	// SandboxPrompts lets Granular ask about the sandbox; without it a command
	// that it would have to ask about is refused.
	SandboxPrompts bool
	// EachAttempt has the retry asked about by itself: an approval of the
	// attempt in the sandbox does not cover it, nor is it remembered for it.
	// Without it one approval covers both.
	EachAttempt bool
}

// asksFirst reports whether a command has to be approved before it runs at
// all; restricted says that its file system is.
func (p Policy) asksFirst(restricted bool) bool {
	switch p.Kind {
	case Untrusted:
		return true
	case OnRequest, Granular:
		return restricted
	default:
		return false
	}
}

// mayRetry reports whether a denied command may run without its sandbox if
// somebody approves.
func (p Policy) mayRetry() bool {
	switch p.Kind {
	case OnFailure, Untrusted:
		return true
	case Granular:
		return p.SandboxPrompts
	default:
		return false
	}
}
