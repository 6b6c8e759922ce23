package cli

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/wire/pathuri"
)

// Words for --sandbox.
const (
	policyReadOnly       = "read-only"
	policyWorkspaceWrite = "workspace-write"
	policyFullAccess     = "danger-full-access" // no sandbox
)

// remotePolicy is what --sandbox says.
type remotePolicy struct {
	word string          // policyReadOnly or policyWorkspaceWrite; empty: json
	json json.RawMessage // a profile, or a whole sandbox object
	// whole says that json is a sandbox object and not a profile.
	whole bool
	// confines says, once there is an object, that nothing but a sandbox will
	// do. A profile may say that there is to be none, and what a whole object
	// says is the server's to read.
	confines bool
	// profile is, once there is an object, what it says; known is false if that
	// is for the server alone to understand.
	profile permissions.Profile
	known   bool
}

// parsePolicy reads --sandbox, and returns nil if it is empty. The content of a JSON
// policy is left to the server to validate.
func parsePolicy(text string) (*remotePolicy, error) {
	switch {
	case text == "" || text == policyFullAccess:
		return nil, nil
	case text == policyReadOnly || text == policyWorkspaceWrite:
		return &remotePolicy{word: text}, nil
	case !strings.HasPrefix(strings.TrimSpace(text), "{"):
		return nil, usagef("--sandbox must be %s, %s, %s or a JSON object, not %q", policyFullAccess, policyReadOnly, policyWorkspaceWrite, text)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		return nil, usagef("--sandbox: this is no JSON: %v", err)
	}
	p := &remotePolicy{json: json.RawMessage(text)}
	for _, name := range []string{"permissions", "sandboxPolicy"} {
		_, ok := members[name]
		p.whole = p.whole || ok
	}
	return p, nil
}

// needsCwd reports whether the policy speaks of the command's directory as one
// that may be written.
func (p *remotePolicy) needsCwd() bool { return p.word == policyWorkspaceWrite }

// writesWorkspace reports, once there is an object, whether the policy lets something
// be written in the workspace. A whole object says itself where that is.
func (p *remotePolicy) writesWorkspace() bool {
	return p != nil && !p.whole && writesWorkspace(p.profile)
}

// writesWorkspace reports whether a profile lets something be written in the
// workspace.
func writesWorkspace(p permissions.Profile) bool {
	return slices.ContainsFunc(p.FileSystem.Entries, func(e permissions.Entry) bool {
		return e.Path.Kind == permissions.ProjectRoots && e.Access == permissions.Write
	})
}

// isRootURI reports whether a directory of the server is the root of its file
// system, or of a drive.
func isRootURI(uri string) bool {
	dir := path.Clean(strings.ReplaceAll(rootOf(uri), `\`, "/"))
	return dir == "/" || dir == "//" || driveRoot.MatchString(dir)
}

// driveRoot matches the root of a drive.
var driveRoot = regexp.MustCompile(`^/?[A-Za-z]:/?\.?$`)

// rootOf is such a directory for people.
func rootOf(uri string) string {
	dir, err := pathuri.Parse(uri, "")
	if err != nil {
		return strings.TrimPrefix(uri, "file://") // not a path as they are here
	}
	return dir
}

// name is what the policy is called; nil is no sandbox.
func (p *remotePolicy) name() string {
	switch {
	case p == nil:
		return "none"
	case p.word != "":
		return p.word
	default:
		return "as given in JSON"
	}
}

// wider says what to do when the policy was too narrow.
func (p *remotePolicy) wider() string {
	switch p.word {
	case policyReadOnly:
		return "to let it write below --cwd use --sandbox workspace-write"
	case policyWorkspaceWrite:
		return "to let it write elsewhere or use the network give a profile, --sandbox JSON"
	default:
		return "to allow more change the JSON of --sandbox"
	}
}

// sandboxObject is the sandbox of a request, as today's servers and Codex
// CLI take it.
type sandboxObject struct {
	Permissions                  json.RawMessage `json:"permissions"`
	Cwd                          string          `json:"cwd"`
	WorkspaceRoots               []string        `json:"workspaceRoots"`
	WindowsSandboxLevel          string          `json:"windowsSandboxLevel"`
	WindowsSandboxPrivateDesktop bool            `json:"windowsSandboxPrivateDesktop"`
	UseLegacyLandlock            bool            `json:"useLegacyLandlock"`
}

// object is what is sent, for a command in a directory of the server, which is
// the workspace. Home is the server's, as a URI. A nil policy sends nothing.
func (p *remotePolicy) object(cwd, home string) (json.RawMessage, error) {
	if p == nil {
		return nil, nil
	}
	native := ""
	if dir, err := pathuri.Parse(home, ""); err == nil {
		native = dir
	}
	decode := func(path string) (string, error) { return pathuri.Parse(path, native) }
	switch {
	case p.whole:
		if c, err := permissions.DecodeContext(p.json, decode); err == nil {
			p.profile, p.known = c.Profile, true
		}
		return p.json, nil
	case p.word != "":
		p.profile = shortProfile(p.word == policyWorkspaceWrite)
	default:
		var err error
		if p.profile, err = permissions.DecodeProfile(p.json, decode); err != nil {
			return nil, usagef("--sandbox: this is no permission profile: %v", profileError(err))
		}
	}
	p.known, p.confines = true, p.profile.ConfinesProcesses()
	text, err := json.Marshal(sandboxObject{
		Permissions: withURIs(p.profile).AppendJSON(nil), Cwd: cwd, WorkspaceRoots: []string{cwd}, WindowsSandboxLevel: "disabled",
	})
	if err != nil {
		return nil, fmt.Errorf("--sandbox: %w", err)
	}
	return text, nil
}

// shortProfile is the profile of a word.
func shortProfile(write bool) permissions.Profile {
	entry := func(kind permissions.PathKind, subpath string, access permissions.Access) permissions.Entry {
		return permissions.Entry{Path: permissions.Path{Kind: kind, Subpath: subpath, HasSubpath: subpath != ""}, Access: access}
	}
	p := permissions.Profile{Kind: permissions.Managed}
	p.FileSystem.Entries = []permissions.Entry{entry(permissions.Root, "", permissions.Read)}
	if write {
		p.FileSystem.Entries = append(p.FileSystem.Entries,
			entry(permissions.ProjectRoots, "", permissions.Write),
			entry(permissions.SlashTmp, "", permissions.Write),
			entry(permissions.Tmpdir, "", permissions.Write),
			entry(permissions.ProjectRoots, ".git", permissions.Read),
			entry(permissions.ProjectRoots, ".agents", permissions.Read),
			entry(permissions.ProjectRoots, ".codex", permissions.Read))
	}
	return p
}

// withURIs writes the paths of a profile as requests have them.
func withURIs(p permissions.Profile) permissions.Profile {
	entries := make([]permissions.Entry, len(p.FileSystem.Entries))
	for i, e := range p.FileSystem.Entries {
		if e.Path.Kind == permissions.Literal {
			e.Path.Text = pathuri.Format(e.Path.Text)
		}
		entries[i] = e
	}
	p.FileSystem.Entries = entries
	return p
}
