// Package placeholders makes a sandbox's changes in the host's directories, and undoes them at its end
// (docs/spec/sandbox.md §7.5; docs/sandbox-design.md).
//
// A mask needs a file to be mounted on. If a missing path must not be created, the launcher makes a placeholder there:
// an empty file or directory with a modification time that no file has by chance. Sandboxes share placeholders, by
// locks, and the last one removes them. Names that cannot be masked are watched, and removed when the command has made
// them. A launcher that is killed leaves both to the janitor, a process that outlives it and the server.
//
// It knows the plan's mounts (plan), and neither the launcher nor a server. Nothing is looked up by a path twice: directories are held
// open, and one name at a time is looked up in them, so that a process which renames and links meanwhile redirects
// nothing. It may import plan.
//
// Read it in this order:
//
//	placeholders.go  a placeholder: made, shared, released
//	undo.go          the watch for names that must not be there
//	removal.go, deletion.go   how a name is freed, and what may be deleted
//	janitor.go       the janitor, and what a launcher tells it
//	calls.go         system calls that package unix does not have
package placeholders
