//go:build linux || darwin

// Package files does the file system work of the server on native absolute
// paths (sections 5 and 8.1 of the wire protocol). It knows no protocol: the
// paths are what pathuri.Parse returns, absolute and clean, and the text of an
// error is what a client may read.
//
//	f, size, err := files.OpenRegular("/srv/log", files.Options{NoFollow: true})
//	err = files.Copy(ctx, "/srv/a", "/srv/b", true)
//	err = files.Remove(ctx, "/srv/a", files.RemoveOptions{Recursive: true, Force: true})
//
// # What it promises
//
// The trees it works on may be hostile and may change while it works. What
// goes down a tree holds descriptors of directories and takes no symbolic
// link for a directory, so a link that is put in the place of a directory
// never leads Remove, Copy or Walk out of the tree. Nothing is looked at by
// name and then used by name where that would matter. Trees may be of any
// depth: neither the stack nor the number of descriptors grows with it.
//
// A pipe or device never makes an operation wait without end: everything is
// opened without blocking, and a write gives up on a reader that takes nothing
// for WriteStall.
//
// # Concurrency
//
// All functions are safe for concurrent use. Those that can take long have a
// context and stop soon after it ends, leaving what they did until then. The
// package starts no goroutine and does nothing when it is loaded.
package files
