package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/host/terminal"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/wire/pathuri"
)

// The words that --sandbox accepts.
const (
	ReadOnly       = "read-only"
	WorkspaceWrite = "workspace-write"
	FullAccess     = "danger-full-access" // no sandbox
)

// Policy is the value of --sandbox with its related options.
type Policy struct {
	word string          // policyReadOnly or policyWorkspaceWrite; empty: json is used
	json json.RawMessage // a profile, or a whole sandbox object
	// whole means that json is a sandbox object and not a profile.
	whole bool
	// network leaves the network on. It is used only with word.
	network bool
	// roots are further directories of the server that may be written, as the user typed them. They
	// are used only with workspace-write.
	roots []string
	// rootPaths are the same as absolute paths, set by Object.
	rootPaths []string
	// file means that json is the content of --profile-file.
	file bool
	// git grants the repository of the workspace. It is used only with workspace-write.
	git bool
	// Confines is set by Object: the command must run in a sandbox. It is false for a profile without a
	// sandbox. Only the server interprets a whole object.
	Confines bool
	// Profile is set by Object: the profile of the policy. Known is false if only the server can interpret it.
	Profile permissions.Profile
	Known   bool
}

// ParsePolicy parses --sandbox. It returns nil if the text is empty. It does not validate the
// content of a JSON policy, because the server does.
func ParsePolicy(text string) (*Policy, error) {
	switch {
	case text == "" || text == FullAccess:
		return nil, nil
	case text == ReadOnly || text == WorkspaceWrite:
		return &Policy{word: text}, nil
	case !strings.HasPrefix(strings.TrimSpace(text), "{"):
		return nil, cmdutil.Usagef("--sandbox must be %s, %s, %s or a JSON object, not %q", FullAccess, ReadOnly, WorkspaceWrite, text)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		return nil, cmdutil.Usagef("--sandbox: invalid JSON: %v", err)
	}
	p := &Policy{json: json.RawMessage(text)}
	for _, name := range []string{"permissions", "sandboxPolicy"} {
		_, ok := members[name]
		p.whole = p.whole || ok
	}
	return p, nil
}

// WithNetwork permits the network. It returns an error for a policy in JSON, because the JSON itself determines
// the network of the command.
func (p *Policy) WithNetwork() error {
	if p.word == "" {
		return cmdutil.Usagef("--network cannot be used with the JSON of --sandbox, which sets the network itself")
	}
	p.network = true
	return nil
}

// NeedsCwd reports whether the directory of the command is a writable root of the policy.
func (p *Policy) NeedsCwd() bool { return p.word == WorkspaceWrite }

// WritesWorkspace reports whether any path in the workspace is writable. It must be called after Object. A
// whole object itself determines the workspace, so the result is false for it.
func (p *Policy) WritesWorkspace() bool {
	return p != nil && !p.whole && writesWorkspace(p.Profile)
}

// writesWorkspace reports whether a profile makes a path in the workspace writable.
func writesWorkspace(p permissions.Profile) bool {
	return slices.ContainsFunc(p.FileSystem.Entries, func(e permissions.Entry) bool {
		return e.Path.Kind == permissions.ProjectRoots && e.Access == permissions.Write
	})
}

// IsRootURI reports whether a directory of the server is the root of its file
// system, or of a drive.
func IsRootURI(uri string) bool {
	dir := path.Clean(strings.ReplaceAll(RootOf(uri), `\`, "/"))
	return dir == "/" || dir == "//" || driveRoot.MatchString(dir)
}

// driveRoot matches the root of a drive.
var driveRoot = regexp.MustCompile(`^/?[A-Za-z]:/?\.?$`)

// RootOf returns the path of such a directory for display.
func RootOf(uri string) string {
	dir, err := pathuri.Parse(uri, "")
	if err != nil {
		return strings.TrimPrefix(uri, "file://") // the path is not one of this machine
	}
	return dir
}

// Name returns the name of the policy. For nil it returns the name for no sandbox.
func (p *Policy) Name() string {
	switch {
	case p == nil:
		return "none"
	case p.word != "":
		name := p.word
		if len(p.roots) > 0 {
			name += " and " + terminal.Text(strings.Join(p.roots, ", "))
		}
		if p.git {
			name += " and the git repository"
		}
		if p.network {
			name += " with the network on"
		}
		return name
	default:
		return "as given in JSON"
	}
}

// Wider returns advice for a user whose command needs more than the policy permits.
func (p *Policy) Wider() string {
	switch p.word {
	case ReadOnly:
		return "to let it write below --cwd use --sandbox workspace-write"
	case WorkspaceWrite:
		git := ""
		if !p.git {
			git = "; to let it commit give --allow-git"
		}
		return "to let it write elsewhere give --writable-root, or a profile with --profile-file" + git + p.widerNetwork()
	default:
		if p.file {
			return "to allow more change the profile of --profile-file"
		}
		return "to allow more change the JSON of --sandbox"
	}
}

// widerNetwork returns advice on how to give the command the network. If the command has the network already, it returns none.
func (p *Policy) widerNetwork() string {
	if p.network {
		return ""
	}
	return "; to let it reach hosts use --allow-domain, --ask-network or --network"
}

// networkErrors are what programs print if they have no network: curl, the C library, node, Go, and the kernel's message. They are
// compared without case.
var networkErrors = []string{
	"could not resolve host", "temporary failure in name resolution", "name or service not known", "eai_again", "no such host",
	"network is unreachable", "enetunreach", "server misbehaving", "dial udp",
}

// WithoutNetwork returns advice for a command that has failed in a sandbox without a network, if the end of its output is about the network;
// otherwise it returns "". It is a guess: the kernel denies the command nothing that it could report.
func (p *Policy) WithoutNetwork(output string) string {
	if p == nil || !p.Known || !p.Confines || p.Profile.Network == permissions.NetworkEnabled {
		return ""
	}
	output = strings.ToLower(output)
	if !slices.ContainsFunc(networkErrors, func(text string) bool { return strings.Contains(output, text) }) {
		return ""
	}
	if p.word == "" {
		return "the sandbox has no network; to let the command reach hosts use --allow-domain or --ask-network"
	}
	return "the sandbox has no network; to let the command reach hosts use --allow-domain, --ask-network or --network"
}

// sandboxObject is the sandbox of a request in the form that current servers and Codex CLI accept.
type sandboxObject struct {
	Permissions                  json.RawMessage `json:"permissions"`
	Cwd                          string          `json:"cwd"`
	WorkspaceRoots               []string        `json:"workspaceRoots"`
	WindowsSandboxLevel          string          `json:"windowsSandboxLevel"`
	WindowsSandboxPrivateDesktop bool            `json:"windowsSandboxPrivateDesktop"`
	UseLegacyLandlock            bool            `json:"useLegacyLandlock"`
}

// Object returns the sandbox of a request for a command in a directory of the server, which is the workspace. home
// is the server's home directory, as a URI. For a nil policy it returns nil.
func (p *Policy) Object(cwd, home string) (json.RawMessage, error) {
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
			p.Profile, p.Known = c.Profile, true
		}
		return p.json, nil
	case p.word != "":
		p.Profile = shortProfile(p.word == WorkspaceWrite)
		if p.network {
			p.Profile.Network = permissions.NetworkEnabled
		}
		if p.git {
			p.Profile.FileSystem.Entries = append(p.Profile.FileSystem.Entries, gitEntry)
		}
		if err := p.addRoots(cwd, native); err != nil {
			return nil, err
		}
	default:
		var err error
		if p.Profile, err = permissions.DecodeProfile(p.json, decode); err != nil {
			return nil, cmdutil.Usagef("--sandbox: invalid permission profile: %v", profileError(err))
		}
	}
	p.Known, p.Confines = true, p.Profile.ConfinesProcesses()
	text, err := json.Marshal(sandboxObject{
		Permissions: withURIs(p.Profile).AppendJSON(nil), Cwd: cwd, WorkspaceRoots: []string{cwd}, WindowsSandboxLevel: "disabled",
	})
	if err != nil {
		return nil, fmt.Errorf("--sandbox: %w", err)
	}
	return text, nil
}

// gitEntry is the entry of --allow-git.
var gitEntry = permissions.Entry{Path: permissions.Path{Kind: permissions.Unknown, Text: permissions.GitPath}, Access: permissions.Write}

// addRoots adds the directories of --writable-root to the writable paths of the profile. They are
// absolute, in the server's home, or relative to the directory of the command.
func (p *Policy) addRoots(cwd, home string) error {
	p.rootPaths = nil
	for _, typed := range p.roots {
		typed = strings.TrimPrefix(typed, ":") // as in paths of codex remote cp
		at := typed
		switch rest, inHome := strings.CutPrefix(typed, "~"); {
		case path.IsAbs(typed):
		case inHome && (rest == "" || rest[0] == '/'):
			if home == "" {
				return cmdutil.Usagef("--writable-root %s: the server does not report its home directory; give an absolute path", typed)
			}
			at = path.Join(home, rest)
		default:
			dir, err := pathuri.Parse(cwd, "")
			if err != nil {
				return cmdutil.Usagef("--writable-root %s: the server does not report its working directory; give an absolute path", typed)
			}
			at = path.Join(dir, typed)
		}
		p.rootPaths = append(p.rootPaths, path.Clean(at))
		p.Profile.FileSystem.Entries = append(p.Profile.FileSystem.Entries,
			permissions.Entry{Path: permissions.Path{Kind: permissions.Literal, Text: path.Clean(at)}, Access: permissions.Write})
	}
	return nil
}

// CheckRoots returns an error if a directory of --writable-root does not exist on the server: an entry for it would grant nothing. exists
// looks at an absolute path of the server. CheckRoots must be called after Object.
func (p *Policy) CheckRoots(exists func(path string) error) error {
	if p == nil {
		return nil
	}
	for _, root := range p.rootPaths {
		if errors.Is(exists(root), fs.ErrNotExist) {
			return cmdutil.WithAdvice(fmt.Errorf("--writable-root: there is no %s on the server, so nothing could be written there", terminal.Literal(root)),
				"codex remote mkdir -p :"+terminal.Literal(root)+" makes it")
		}
	}
	return nil
}

// shortProfile returns the profile of read-only or workspace-write.
func shortProfile(write bool) permissions.Profile {
	if write {
		return permissions.Workspace()
	}
	return permissions.ReadOnly()
}

// withURIs returns a copy of a profile in which paths are URIs, as in requests.
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
