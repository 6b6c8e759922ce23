package wsauth

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/internal/tokens"
)

// Role is the set of a client's permissions. The zero value permits nothing.
type Role string

// The roles. Each includes the ones before it.
const (
	// RoleRead reads files and follows the output of processes of its principal.
	RoleRead Role = "read"
	// RoleRun starts processes and changes files.
	RoleRun Role = "run"
	// RoleAdmin sees the numbers of the whole server, and ends processes of all clients.
	RoleAdmin Role = "admin"
)

// Roles are the roles, each of which may do what those before it may.
var Roles = []Role{RoleRead, RoleRun, RoleAdmin}

// Allows reports whether a role may do what is for another.
func (r Role) Allows(other Role) bool {
	own, wanted := slices.Index(Roles, r), slices.Index(Roles, other)
	return own >= 0 && wanted >= 0 && own >= wanted
}

// Sandbox is the weakest sandbox that a ceiling permits.
type Sandbox string

// The sandboxes of ceilings.
const (
	// SandboxNone permits everything. The zero value is the same.
	SandboxNone Sandbox = "none"
	// SandboxWorkspaceWrite permits writing below Ceiling.Dir and in temporary directories.
	SandboxWorkspaceWrite Sandbox = "workspace-write"
	// SandboxReadOnly permits reading.
	SandboxReadOnly Sandbox = "read-only"
)

// Sandboxes are the sandboxes of ceilings, the weakest last.
var Sandboxes = []Sandbox{SandboxReadOnly, SandboxWorkspaceWrite, SandboxNone}

// Limits are execproto.ProcessLimits in a file.
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

// Limits that a file holds are those of the protocol.
var _ = execproto.ProcessLimits(Limits{})

// Ceiling bounds what a client may ask for. The zero value bounds nothing. Values can be
// compared.
type Ceiling struct {
	// Dir is the directory to which file requests and working directories are confined: a
	// clean absolute path; "": none.
	Dir string `json:"dir,omitempty"`
	// MaxSandbox is the weakest sandbox of processes and file requests.
	MaxSandbox Sandbox `json:"maxSandbox,omitempty"`
	// Limits are the highest that processes may have.
	Limits Limits `json:"limits,omitzero"`
}

// ConfinesProcesses reports whether processes must have a sandbox.
func (c *Ceiling) ConfinesProcesses() bool {
	return c.MaxSandbox != "" && c.MaxSandbox != SandboxNone
}

// ConfinesFiles reports whether file requests must have a sandbox.
func (c *Ceiling) ConfinesFiles() bool { return c.Dir != "" || c.ConfinesProcesses() }

// Token is what is kept of a token with a role: everything but its secret.
type Token struct {
	tokens.Token
	Role Role `json:"role"`
	// Principal owns the detached processes; "": the token itself. Tokens of one
	// principal see the same ones.
	Principal string `json:"principal,omitempty"`
	Ceiling
}

// Check returns what is wrong with a token that a person has asked for or
// written into the file; it is a tokens.InvalidError.
func (t *Token) Check() error {
	confined := t.ConfinesProcesses()
	switch {
	case !slices.Contains(Roles, t.Role):
		return tokens.Invalid("role", "%q: expected read, run or admin", t.Role)
	case len(t.Principal) > tokens.MaxName || !tokens.Printable(t.Principal) || strings.TrimSpace(t.Principal) != t.Principal:
		return tokens.Invalid("principal", "%.*q: at most %d bytes that can be printed, without blanks around them", tokens.MaxName, t.Principal, tokens.MaxName)
	case t.Dir != "" && (!path.IsAbs(t.Dir) || path.Clean(t.Dir) != t.Dir || strings.ContainsRune(t.Dir, 0)):
		return tokens.Invalid("cwd", "%q is not a clean absolute path", t.Dir)
	case t.MaxSandbox != "" && !slices.Contains(Sandboxes, t.MaxSandbox):
		return tokens.Invalid("max-sandbox", "%q: expected read-only, workspace-write or none", t.MaxSandbox)
	case t.MaxSandbox == SandboxWorkspaceWrite && t.Dir == "":
		return tokens.Invalid("max-sandbox", "workspace-write needs --cwd: the directory that may be written")
	case t.Role == RoleRead && t.MaxSandbox != "":
		return tokens.Invalid("max-sandbox", "is for --role run: a token with --role read can neither start processes nor write")
	case t.Role == RoleRead && t.Limits != Limits{}:
		return tokens.Invalid("limits", "are for --role run: a token with --role read cannot start processes")
	case t.Role == RoleAdmin && (t.Dir != "" || confined || t.Limits != Limits{}):
		return tokens.Invalid("role", "admin has no ceilings: give --role run, or leave out --cwd, --max-sandbox and the limits")
	}
	return nil
}

// tokenPrefix begins the text of a token.
const tokenPrefix tokens.Prefix = "cxe_"

// TokenID returns the id in the text of a token; empty: it is none.
func TokenID(secret string) string { return tokenPrefix.ID(secret) }

// InvalidError says that what a person has asked for cannot be a token.
type InvalidError = tokens.InvalidError

// TokenFile is a file with tokens that have roles. A running server notices what another
// process changes in it. Its methods may be called from any goroutine.
type TokenFile struct {
	*tokens.File[Token, *Token]
	now func() time.Time
}

// OpenTokens returns the token file at a path. It need not be there yet: then
// it has no tokens.
func OpenTokens(path string) *TokenFile { return openTokens(path, time.Now) }

func openTokens(path string, now func() time.Time) *TokenFile {
	return &TokenFile{tokens.Open[Token](path, tokenPrefix, now), now}
}

// TokenSpec is what a new token is for; see Token.
type TokenSpec struct {
	Name, Principal string
	Role            Role
	Ceiling         Ceiling
	TTL             time.Duration // 0: it does not expire
}

// Create makes a token and returns its text, which is not kept and cannot be had again. The
// error is an InvalidError if there can be no such token. A token to run processes in a
// directory has the sandbox workspace-write, unless the ceiling says something else:
// without one, commands could leave the directory.
func (f *TokenFile) Create(ctx context.Context, spec TokenSpec) (string, Token, error) {
	t := Token{Token: tokens.Token{Name: spec.Name}, Role: spec.Role, Principal: spec.Principal, Ceiling: spec.Ceiling}
	if t.Role == RoleRun && t.Dir != "" && t.MaxSandbox == "" {
		t.MaxSandbox = SandboxWorkspaceWrite
	}
	return f.File.Create(ctx, t, spec.TTL)
}

// Grant is what an authenticated client may do.
type Grant struct {
	// Principal is whom sessions and detached processes belong to.
	Principal string
	// Token is the id of the token; "": the client has none from a file.
	Token   string
	Role    Role
	Ceiling Ceiling
	Expires time.Time // zero: never
	// Renewable says that the client can come back with another token of the same principal, as with
	// a JWT that is signed anew: its session waits for that.
	Renewable bool

	check func() error // nil: the grant does not end
}

// Unlimited returns the grant of a client that may do everything, and that does not end.
func Unlimited(principal string) Grant { return Grant{Principal: principal, Role: RoleAdmin} }

// Ends reports whether the grant can end, so that Check has to be called again.
func (g *Grant) Ends() bool { return g.check != nil }

// Check returns nil as long as the grant is good: ErrEnded if its time is over, ErrRevoked if its token was
// revoked or permits something else by now, or cannot be looked up. Scenario: an operator
// lowers the ceiling of a token in the file while its client is connected.
func (g *Grant) Check() error {
	if g.check == nil {
		return nil
	}
	return g.check()
}

// authenticate returns the grant of a token in the file.
func (f *TokenFile) authenticate(secret string) (Grant, error) {
	t, err := f.Authenticate(secret)
	switch {
	case errors.Is(err, tokens.ErrBadToken):
		return Grant{}, ErrToken
	case err != nil:
		return Grant{}, ErrTokenFile
	}
	grant := t.grant()
	grant.check = func() error { return f.check(&grant, t.SHA256) }
	return grant, nil
}

// grant returns what the holder of the token may do.
func (t *Token) grant() Grant {
	principal := "token " + t.ID
	if t.Principal != "" {
		principal = "principal " + t.Principal
	}
	return Grant{Principal: principal, Token: t.ID, Role: t.Role, Ceiling: t.Ceiling, Expires: t.Expires}
}

// check is Grant.Check for a grant whose token has a digest.
func (f *TokenFile) check(g *Grant, digest string) error {
	t, err := f.Find(g.Token)
	if err != nil {
		if !g.Expires.IsZero() && !f.now().Before(g.Expires) {
			return ErrEnded
		}
		return ErrRevoked
	}
	if now := t.grant(); t.SHA256 != digest || now.Principal != g.Principal || now.Role != g.Role || now.Ceiling != g.Ceiling {
		return ErrRevoked
	}
	return nil
}
