package permissions

import "path"

// ReadOnly returns the profile that permits reading everything, writing nothing, and no network.
func ReadOnly() Profile {
	p := Profile{Kind: Managed}
	p.FileSystem.Entries = []Entry{{Path: Path{Kind: Root}, Access: Read}}
	return p
}

// Workspace returns ReadOnly plus write access to /tmp, $TMPDIR and the directories dirs, except
// for .git, .agents and .codex in them. The directories are absolute native paths. If dirs is
// empty, the workspace of the request is writable: its roots, or the directory of the command.
func Workspace(dirs ...string) Profile {
	p := ReadOnly()
	add := func(at Path, access Access) {
		p.FileSystem.Entries = append(p.FileSystem.Entries, Entry{Path: at, Access: access})
	}
	if len(dirs) == 0 {
		add(Path{Kind: ProjectRoots}, Write)
	}
	for _, dir := range dirs {
		add(Path{Kind: Literal, Text: path.Clean(dir)}, Write)
	}
	add(Path{Kind: SlashTmp}, Write)
	add(Path{Kind: Tmpdir}, Write)
	for _, name := range metadataNames {
		if len(dirs) == 0 {
			add(Path{Kind: ProjectRoots, Subpath: name, HasSubpath: true}, Read)
		}
		for _, dir := range dirs {
			add(Path{Kind: Literal, Text: path.Join(dir, name)}, Read)
		}
	}
	return p
}
