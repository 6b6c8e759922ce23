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

// ReadOnlySandbox is for Cmd.Sandbox and FS.WithSandbox: everything may be
// read, nothing written, and there is no network.
func ReadOnlySandbox() json.RawMessage {
	return sandboxOf(nil, []string{"file:///"})
}

// WorkspaceSandbox is ReadOnlySandbox, except that /tmp, $TMPDIR and what is
// below the given directories, absolute paths of the server or `file:` URIs,
// may be written, but for .git, .agents and .codex in them.
func WorkspaceSandbox(root string, more ...string) json.RawMessage {
	roots := []string{pathOf(root)}
	for _, r := range more {
		roots = append(roots, pathOf(r))
	}
	return sandboxOf([]permissions.Entry{
		special(permissions.ProjectRoots, "", permissions.Write),
		special(permissions.SlashTmp, "", permissions.Write),
		special(permissions.Tmpdir, "", permissions.Write),
		special(permissions.ProjectRoots, ".git", permissions.Read),
		special(permissions.ProjectRoots, ".agents", permissions.Read),
		special(permissions.ProjectRoots, ".codex", permissions.Read),
	}, roots)
}

func special(kind permissions.PathKind, subpath string, access permissions.Access) permissions.Entry {
	return permissions.Entry{Path: permissions.Path{Kind: kind, Subpath: subpath, HasSubpath: subpath != ""}, Access: access}
}

// sandboxOf is the object for a profile that lets everything be read. The first
// of the roots is the directory that the profile is relative to.
func sandboxOf(entries []permissions.Entry, roots []string) json.RawMessage {
	p := permissions.Profile{Kind: permissions.Managed}
	p.FileSystem.Entries = slices.Concat([]permissions.Entry{special(permissions.Root, "", permissions.Read)}, entries)
	text, err := json.Marshal(sandboxContext{
		Permissions: p.AppendJSON(nil), Cwd: roots[0], WorkspaceRoots: roots, WindowsSandboxLevel: "disabled",
	})
	if err != nil {
		panic(err) // there is nothing in it that has no JSON
	}
	return text
}
