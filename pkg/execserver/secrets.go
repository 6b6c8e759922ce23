//go:build linux || darwin

package execserver

import (
	"path/filepath"
	"slices"
	"strings"

	"codex.internal/pkg/sandbox/permissions"
)

// hideSecrets denies a profile the directories and files of the credentials that
// network proxies inject. Entries for what is in them are dropped: a command that could read
// the file would not need the proxy. A profile that grants the whole file system is
// not changed, because it has no entries and its command is not confined to files.
func (srv *Server) hideSecrets(p *permissions.Profile) {
	secrets := slices.Concat(srv.secretPaths, srv.auditFiles())
	if len(secrets) == 0 || p.Kind != permissions.Managed || p.FileSystem.Unrestricted {
		return
	}
	entries := slices.DeleteFunc(slices.Clone(p.FileSystem.Entries), func(e permissions.Entry) bool {
		return e.Path.Kind == permissions.Literal && isIn(secrets, e.Path.Text)
	})
	for _, path := range secrets {
		entries = append(entries, permissions.Entry{Path: permissions.Path{Kind: permissions.Literal, Text: path}, Access: permissions.Deny})
	}
	p.FileSystem.Entries = entries
}

// isIn reports whether a path is, or leads by links to, one of the hidden paths or what
// is in it.
func isIn(secrets []string, path string) bool {
	paths := []string{path}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		paths = append(paths, real)
	}
	return slices.ContainsFunc(paths, func(path string) bool {
		return slices.ContainsFunc(secrets, func(hidden string) bool { return path == hidden || strings.HasPrefix(path, hidden+"/") })
	})
}

// grantRead lets a profile read a file, and not write it.
func grantRead(p *permissions.Profile, path string) {
	if p.Kind != permissions.Managed || p.FileSystem.Unrestricted {
		return
	}
	p.FileSystem.Entries = append(slices.Clone(p.FileSystem.Entries), permissions.Entry{
		Path: permissions.Path{Kind: permissions.Literal, Text: path}, Access: permissions.Read,
	})
}
