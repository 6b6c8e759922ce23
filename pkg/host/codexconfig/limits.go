package codexconfig

const (
	// maxFileBytes bounds one configuration file. People write these files by hand. If a path is a
	// link to /dev/zero or to a log, the limit turns it into an error before memory is exhausted.
	maxFileBytes = 1 << 20

	// maxTotalBytes bounds the files of one call together: a project may have a
	// file in every directory from its root to the working directory.
	maxTotalBytes = 16 << 20

	// maxDirectories bounds the directories from a project's root to the working
	// directory. Each costs a few system calls, and a path of 4 KiB can name
	// 2,000 of them.
	maxDirectories = 256

	// maxDepth bounds tables and arrays inside each other, so that recursion is
	// bounded. Real files have five levels.
	maxDepth = 128

	// maxSelected bounds the selected text of all layers. It can be longer than the files: a dotted
	// key repeats no header, but each table is printed with a header.
	maxSelected = 4 << 20

	// maxGitFile bounds the `.git` file of a linked work tree, and the file that names the work
	// tree in the main repository. Each has a path and a few words.
	maxGitFile = 8 << 10
)
