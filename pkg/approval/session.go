package approval

import (
	"strconv"
	"strings"
	"sync"

	"codex.internal/pkg/sandbox/permissions"
)

// Request is a command that a client wants to run.
type Request struct {
	Environment string   // id of the environment in which it would run
	Argv        []string // the command as that environment starts it
	Cwd         string   // working directory, a URI
	TTY         bool     // whether it gets a terminal
	// Sandbox and Additional are the requested sandbox permissions and additional
	// permissions, as texts that are equal for equal permissions.
	Sandbox, Additional string
	// Profile confines the first attempt; it includes additional permissions.
	Profile permissions.Profile
}

// Key identifies the commands that one approval covers: all commands with an equal key.
type Key struct {
	environment, command, cwd string
	tty                       bool
	sandbox, additional       string
	retry                     bool // of the retry alone, under Policy.EachAttempt
}

// Key returns the key of the request.
func (r Request) Key() Key {
	return Key{
		environment: r.Environment, command: CanonicalCommand(r.Argv), cwd: r.Cwd, tty: r.TTY,
		sandbox: r.Sandbox, additional: r.Additional,
	}
}

// CanonicalCommand returns a text that is equal for equal arguments and different
// for others: each argument is quoted as by strconv.Quote.
func CanonicalCommand(argv []string) string {
	quoted := make([]string, len(argv))
	for i, arg := range argv {
		quoted[i] = strconv.Quote(arg)
	}
	return strings.Join(quoted, " ")
}

// Session stores approvals in memory. The zero value is ready to use; a nil one
// stores nothing. It is safe for concurrent use.
type Session struct {
	mu       sync.Mutex
	approved map[Key]struct{}
}

// Approve stores an approval and reports whether it was stored; a session stores at most 4096.
func (s *Session) Approve(k Key) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.approved[k]; !known && len(s.approved) >= maxApprovals {
		return false
	}
	if s.approved == nil {
		s.approved = make(map[Key]struct{})
	}
	s.approved[k] = struct{}{}
	return true
}

// Approved reports whether an approval is stored.
func (s *Session) Approved(k Key) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.approved[k]
	return known
}
