package execclient

import (
	"encoding/json"
	"slices"

	"codex.internal/pkg/sandbox/permissions"
)

// sandboxContext is the sandbox object of requests.
type sandboxContext struct {
	Permissions                  json.RawMessage `json:"permissions"`
	Cwd                          string          `json:"cwd,omitempty"`
	WorkspaceRoots               []string        `json:"workspaceRoots"`
	WindowsSandboxLevel          string          `json:"windowsSandboxLevel"`
	WindowsSandboxPrivateDesktop bool            `json:"windowsSandboxPrivateDesktop"`
	UseLegacyLandlock            bool            `json:"useLegacyLandlock"`
}

// ReadOnlySandbox returns a sandbox for Cmd.Sandbox and FS.WithSandbox: all files may be read,
// none written, and there is no network.
func ReadOnlySandbox() json.RawMessage {
	return ProfileSandbox(permissions.ReadOnly(), "/")
}

// WorkspaceSandbox is ReadOnlySandbox, except that files may be written in /tmp, $TMPDIR and
// the given directories, but not in .git, .agents and .codex there. The directories are
// absolute paths of the server or `file:` URIs.
func WorkspaceSandbox(root string, more ...string) json.RawMessage {
	return ProfileSandbox(permissions.Workspace(), root, more...)
}

// ProfileSandbox returns the sandbox of a permission profile, for Cmd.Sandbox and
// FS.WithSandbox. The directories, absolute paths of the server or `file:` URIs, are the
// workspace; relative parts of the profile are relative to the first.
func ProfileSandbox(p permissions.Profile, root string, more ...string) json.RawMessage {
	roots := []string{pathOf(root)}
	for _, r := range more {
		roots = append(roots, pathOf(r))
	}
	p.FileSystem.Entries = slices.Clone(p.FileSystem.Entries)
	for i := range p.FileSystem.Entries {
		if at := &p.FileSystem.Entries[i].Path; at.Kind == permissions.Literal {
			at.Text = pathOf(at.Text)
		}
	}
	text, err := json.Marshal(sandboxContext{
		Permissions: p.AppendJSON(nil), Cwd: roots[0], WorkspaceRoots: roots, WindowsSandboxLevel: "disabled",
	})
	if err != nil {
		panic(err) // all its values can be encoded
	}
	return text
}
