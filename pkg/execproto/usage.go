package execproto

import (
	"errors"

	"codex.internal/pkg/wire/jsonwire"
)

// ListScope selects the processes that a process/list returns.
type ListScope string

// The scopes of ListParams.
const (
	// ListSession: the processes of the connection's session.
	ListSession ListScope = "session"
	// ListPrincipal: the processes of all sessions of the client's principal.
	ListPrincipal ListScope = "principal"
	// ListServer: the processes of all sessions. It needs the role admin.
	ListServer ListScope = "server"
)

var errListScope = errors.New("scope must be `session`, `principal` or `server`")

// ListParams are the params of process/list and, without Scope, of process/listDetached
// (docs/spec/wire.md §4.12). Older clients send no params, which are read as the zero value.
type ListParams struct {
	// Usage asks for ProcessUsage.
	Usage bool
	// Scope is empty for ListSession.
	Scope ListScope
}

func (p *ListParams) Fields(c *jsonwire.Codec) {
	c.Bool("usage", orNull|omit, &p.Usage)
	jsonwire.Word(c, "scope", orNull|omit, &p.Scope)
	c.Refuse(p.Scope != "" && p.Scope != ListSession && p.Scope != ListPrincipal && p.Scope != ListServer, errListScope)
}

// DecodeList decodes the params of process/list and process/listDetached, which may be
// absent or null.
func DecodeList(src []byte) (ListParams, error) {
	if DecodeEmpty(src) == nil {
		return ListParams{}, nil
	}
	return Decode[ListParams](src)
}

// ProcessUsage is what a running process and its descendants use at the moment of the
// answer.
type ProcessUsage struct {
	// UserMS and SystemMS are processor time.
	UserMS, SystemMS uint64
	// MemoryBytes is what a cgroup counts, page cache included, or the sum of the resident
	// memory of the processes.
	MemoryBytes uint64
	Processes   uint64
}

func (u *ProcessUsage) Fields(c *jsonwire.Codec) {
	c.Uint64("userMs", orNull, &u.UserMS)
	c.Uint64("systemMs", orNull, &u.SystemMS)
	c.Uint64("memoryBytes", orNull, &u.MemoryBytes)
	c.Uint64("processes", orNull, &u.Processes)
}
