package permissions

// These are the limits of this implementation. Each is far above what people or clients write. They
// prevent a hostile text from costing more than its own size.
const (
	// maxEntries bounds the entries of one profile, read lists and overlays
	// included. Roots are compared with entries pair by pair, and the profile
	// has to fit the 128 KiB of one command-line argument anyhow.
	maxEntries = 1024

	// maxRoots bounds the workspace roots of a request. Each project_roots
	// entry is repeated for every root.
	maxRoots = 64

	// maxExpanded bounds the entries after project_roots entries were replaced.
	maxExpanded = 4096

	// maxText bounds a path, pattern or subpath as written, in bytes. It admits the longest path of
	// the kernel with every byte as a percent escape, and a scheme.
	maxText = 3*maxPath + 64

	// maxPath bounds a decoded path or a pattern, in bytes. It is the longest path that the kernel
	// accepts (PATH_MAX, which includes the NUL).
	maxPath = 4095

	// maxShown bounds the input that an error repeats, in bytes.
	maxShown = 64

	// MaxLinks bounds the symbolic links on the way to one path, as the
	// kernel does.
	MaxLinks = 40

	// maxPointer is how many bytes of a `.git` file are read. It admits the word gitdir, a path and
	// blanks.
	maxPointer = 2 * (maxPath + 1)

	// maxRepositories bounds the repository directories that are examined for one root. A work tree
	// has two, and may be inside of other work trees.
	maxRepositories = 32

	// maxMatches bounds the paths that all the globs of a policy match
	// (docs/spec/sandbox.md §2.6). Each match becomes a mount.
	maxMatches = 8192

	// maxVisited bounds the directory entries that one expansion reads: about a second of work.
	maxVisited = 1 << 20

	// maxVisitedFromRoot bounds the directory entries that one expansion reads for each pattern
	// that begins with a wildcard directly below `/`: about a tenth of a second of work. Such a
	// pattern is hardly ever meant to search a whole machine before each command. A pattern that
	// needs more is refused.
	maxVisitedFromRoot = 1 << 15

	// maxAlternatives bounds the patterns to which the braces of one pattern expand.
	maxAlternatives = 256
)
