package approval

import (
	"strconv"
	"strings"
	"sync"

	"codex.internal/pkg/sandbox/permissions"
)

// Request is a command that somebody wants to run.
type Request struct {
	Environment string   // id of the environment that it would run in
	Argv        []string // the command as that environment starts it
	Cwd         string   // working directory, a URI
	TTY         bool     // whether it gets a terminal
	// Sandbox and Additional are the sandbox permissions and the additional
	// permissions that were requested, in any spelling that is the same for
	// the same permissions.
	Sandbox, Additional string
	// Profile is what the first attempt is confined to, additional permissions
	// included.
	Profile permissions.Profile
}

// Key is what an approval is remembered under. Keys are equal by == when one
// approval covers both commands.
type Key struct {
	environment, command, cwd string
	tty                       bool
	sandbox, additional       string
	retry                     bool // of the retry alone, under Policy.EachAttempt
}

// Key returns what an approval of the request is remembered under.
func (r Request) Key() Key {
	return Key{
		environment: r.Environment, command: CanonicalCommand(r.Argv), cwd: r.Cwd, tty: r.TTY,
		sandbox: r.Sandbox, additional: r.Additional,
	}
}

// CanonicalCommand returns a text that is the same for the same arguments, and
// for no others: each is quoted as Go does.
func CanonicalCommand(argv []string) string {
	quoted := make([]string, len(argv))
	for i, arg := range argv {
		quoted[i] = strconv.Quote(arg)
	}
	return strings.Join(quoted, " ")
}

// Session remembers, in memory, what was approved for as long as it lasts. The
// zero value is ready, a nil one remembers nothing. It is safe for concurrent
// use.
type Session struct {
	mu       sync.Mutex
	approved map[Key]struct{}
}

// Approve remembers an approval and reports whether there was room for it; a
// session remembers 4096.
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

// Approved reports whether an approval is remembered.
func (s *Session) Approved(k Key) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.approved[k]
	return known
}
