package tokens

import (
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"codex.internal/pkg/wire/jsonwire"
)

// Role is the set of a client's permissions. The zero value permits nothing.
type Role string

// These are the roles. Each includes the permissions of the earlier ones.
const (
	// RoleRead permits reading files and following the output of processes of the client's
	// principal.
	RoleRead Role = "read"
	// RoleRun permits starting processes and changing files.
	RoleRun Role = "run"
	// RoleAdmin permits reading the numbers of the whole server, and ending processes of all
	// clients.
	RoleAdmin Role = "admin"
)

// Roles lists the roles. Each includes the permissions of the earlier ones.
var Roles = []Role{RoleRead, RoleRun, RoleAdmin}

// Allows reports whether a role includes the permissions of another role.
func (r Role) Allows(other Role) bool {
	own, wanted := slices.Index(Roles, r), slices.Index(Roles, other)
	return own >= 0 && wanted >= 0 && own >= wanted
}

// Sandbox is the weakest sandbox that a ceiling permits.
type Sandbox string

// The sandboxes of ceilings.
const (
	// SandboxNone permits everything. The zero value has the same meaning.
	SandboxNone Sandbox = "none"
	// SandboxWorkspaceWrite permits writing below Ceiling.Dir and in temporary directories.
	SandboxWorkspaceWrite Sandbox = "workspace-write"
	// SandboxReadOnly permits reading.
	SandboxReadOnly Sandbox = "read-only"
)

// Sandboxes are the sandboxes of ceilings, the weakest last.
var Sandboxes = []Sandbox{SandboxReadOnly, SandboxWorkspaceWrite, SandboxNone}

// Limits is the form of execproto.ProcessLimits in a file.
type Limits struct {
	MemoryBytes uint64 `json:"memoryBytes,omitempty"`
	SwapBytes   uint64 `json:"swapBytes,omitempty"`
	PIDs        uint64 `json:"pids,omitempty"`
	CPUMillis   uint64 `json:"cpuMillis,omitempty"`
	CPUSeconds  uint64 `json:"cpuSeconds,omitempty"`
	WallMS      uint64 `json:"wallMs,omitempty"`
	OutputBytes uint64 `json:"outputBytes,omitempty"`
	FileBytes   uint64 `json:"fileBytes,omitempty"`
	OpenFiles   uint64 `json:"openFiles,omitempty"`
	Require     bool   `json:"require,omitempty"`
}

// Ceiling bounds what a client may request. The zero value bounds nothing. Values can be compared.
type Ceiling struct {
	// Dir is the directory to which file requests and working directories are confined: a clean
	// absolute path. "" means that they are not confined.
	Dir string `json:"dir,omitempty"`
	// MaxSandbox is the weakest permitted sandbox of processes and file requests.
	MaxSandbox Sandbox `json:"maxSandbox,omitempty"`
	// Limits are the highest limits that processes may have.
	Limits Limits `json:"limits,omitzero"`
}

// ConfinesProcesses reports whether processes must have a sandbox.
func (c *Ceiling) ConfinesProcesses() bool {
	return c.MaxSandbox != "" && c.MaxSandbox != SandboxNone
}

// ConfinesFiles reports whether file requests must have a sandbox.
func (c *Ceiling) ConfinesFiles() bool { return c.Dir != "" || c.ConfinesProcesses() }

// CheckAccess returns an InvalidError if a role or its ceiling is invalid.
func CheckAccess(role Role, c *Ceiling) error {
	switch {
	case !slices.Contains(Roles, role):
		return Invalid("role", "%q: expected read, run or admin", role)
	case c.Dir != "" && (!path.IsAbs(c.Dir) || path.Clean(c.Dir) != c.Dir || strings.ContainsRune(c.Dir, 0)):
		return Invalid("cwd", "%q is not a clean absolute path", c.Dir)
	case c.MaxSandbox != "" && !slices.Contains(Sandboxes, c.MaxSandbox):
		return Invalid("max-sandbox", "%q: expected read-only, workspace-write or none", c.MaxSandbox)
	case c.MaxSandbox == SandboxWorkspaceWrite && c.Dir == "":
		return Invalid("max-sandbox", "workspace-write needs --cwd: the directory that may be written")
	case role == RoleRead && c.MaxSandbox != "":
		return Invalid("max-sandbox", "is for --role run: a token with --role read can neither start processes nor write")
	case role == RoleRead && c.Limits != Limits{}:
		return Invalid("limits", "are for --role run: a token with --role read cannot start processes")
	case role == RoleAdmin && (c.Dir != "" || c.ConfinesProcesses() || c.Limits != Limits{}):
		return Invalid("role", "admin has no ceilings: give --role run, or leave out --cwd, --max-sandbox and the limits")
	}
	return nil
}

// DefaultCeiling returns the ceiling of a new token. A token to run processes in a directory gets
// the sandbox workspace-write, unless the ceiling has another one: without a sandbox, commands
// could leave the directory.
func DefaultCeiling(role Role, c Ceiling) Ceiling {
	if role == RoleRun && c.Dir != "" && c.MaxSandbox == "" {
		c.MaxSandbox = SandboxWorkspaceWrite
	}
	return c
}

// Grant is the part of a client's token that a registry sends to a server (docs/spec/relay.md
// §8.5).
type Grant struct {
	Token string `json:"token"` // its id
	Name  string `json:"name,omitempty"`
	Role  Role   `json:"role"`
	Ceiling
	Expires time.Time `json:"expires,omitzero"` // zero: never
}

// Limited reports whether the grant permits less than everything.
func (g *Grant) Limited() bool { return g.Role != RoleAdmin }

// ParseGrant reads a grant. An unknown member is an error: it could be a restriction.
func ParseGrant(text []byte) (*Grant, error) {
	g := new(Grant)
	if err := jsonwire.UnmarshalKnown(text, g); err != nil {
		return nil, err
	}
	if !IsID(g.Token) || len(g.Name) > MaxName || !Printable(g.Name) {
		return nil, errors.New("the id or the name of a token is malformed")
	}
	return g, CheckAccess(g.Role, &g.Ceiling)
}
