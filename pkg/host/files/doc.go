// Package files does the file system work of the server (docs/spec/wire.md §5).
// Paths are native, absolute and clean, as pathuri.Parse returns them. Error
// texts may be sent to clients.
//
//	f, size, err := files.OpenRegular("/srv/log", files.Options{NoFollow: true})
//	err = files.Copy(ctx, "/srv/a", "/srv/b", true)
//	err = files.Remove(ctx, "/srv/a", files.RemoveOptions{Recursive: true, Force: true})
//
// # What it promises
//
// The trees may be hostile and may change during an operation. Remove, Copy and Walk hold
// descriptors of the directories that they are in, and do not enter symbolic links. So if a
// directory is replaced by a link, they do not leave the tree. No file is checked by name and then
// opened by name if an attacker could exchange it in between. Trees may be of any depth: neither
// the stack nor the number of descriptors grows with the depth.
//
// A pipe or device never blocks an operation forever. Every file is opened without blocking, and a
// write fails if the reader takes no data for WriteStall.
//
// # Concurrency
//
// All functions are safe for concurrent use. Those that can take long have a context, and stop soon
// after it ends; they do not undo the changes that they have made. The package starts no
// goroutines.
package files
