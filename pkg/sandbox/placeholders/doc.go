// Package placeholders makes a sandbox's changes in the host's directories, and undoes them when
// the sandbox ends (docs/spec/sandbox.md §7.5; docs/sandbox-design.md).
//
// A mask needs a file to be mounted on. If a missing path must not be created, the launcher creates
// a placeholder there: an empty file or directory with a modification time that no file has by
// chance. Sandboxes share placeholders by locks, and the last sandbox removes them. Names that
// cannot be masked are watched, and are removed when the command has created them. If a launcher is
// killed, the janitor removes both. The janitor is a process that outlives the launcher and the
// server.
//
// The package uses the plan's mounts (plan), but does not depend on the launcher or a server. It
// never looks a path up twice: it keeps directories open, and looks up one name at a time in them.
// So a process that renames and links files at the same time cannot redirect an operation. It may
// import plan.
//
// Read it in this order:
//
//	placeholders.go  a placeholder: made, shared, released
//	undo.go          the watch for names that must not be there
//	removal.go, deletion.go   how a name is freed, and what may be deleted
//	janitor.go       the janitor, and what a launcher tells it
//	calls.go         system calls that package unix does not have
package placeholders
