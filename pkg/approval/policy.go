package approval

// Kind selects when a person is asked.
type Kind uint8

// The kinds of policies. The zero value is the strict one.
const (
	// Never never asks: an access that the sandbox denies stays denied.
	Never Kind = iota
	// OnRequest asks before a confined command runs, and never retries it.
	OnRequest
	// OnFailure runs the command in the sandbox. If the sandbox denied it
	// something, it asks whether the command may run without one.
	OnFailure
	// Untrusted asks before every command. An approved command may also run
	// without the sandbox if that denied it something.
	Untrusted
	// Granular asks like OnRequest and, after a denial, like OnFailure;
	// Policy.SandboxPrompts decides whether it may ask at all.
	Granular
)

// kinds are the names of the kinds in the configuration.
var kinds = [...]string{"never", "on-request", "on-failure", "untrusted", "granular"}

// String returns the name of the kind in the configuration.
func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return "invalid"
}

// Policy decides when a person is asked. The zero value never asks.
type Policy struct {
	Kind Kind
	// SandboxPrompts lets Granular ask about the sandbox; without it a command
	// that it would have to ask about is refused.
	SandboxPrompts bool
	// EachAttempt makes a retry need its own approval, which is also stored
	// separately. Without it, one approval covers both attempts.
	EachAttempt bool
}

// asksFirst reports whether a command must be approved before its first attempt;
// restricted says that its profile restricts the file system.
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
// a person approves it.
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
