// Package peercred identifies the user of the process at the other end of a connection within this
// machine. It also determines whether a sandbox confines that process.
//
// Every local user can connect to a loopback port, and so can sandboxed commands that have the
// network. A server without tokens therefore admits a peer only under two conditions: the kernel
// reports that the peer's socket belongs to the server's own user or to root, and no confined
// process holds that socket:
//
//	peer, err := peercred.Identify(conn)
//	if err != nil {
//		// refuse: err says why
//	}
//
// The user of a TCP socket comes from the kernel's socket diagnosis, and the user of a Unix socket
// from SO_PEERCRED. The processes that hold the socket are found by its inode in /proc/PID/fd. All
// of them are checked, because a confined process may pass its socket to a child. A process counts
// as confined if it
//
//   - is in a PID namespace below the server's, or in another user namespace;
//   - has no_new_privs and more seccomp filters than the server, which no
//     descendant of a sandboxed command can remove; or
//   - descends from a launcher.
//
// A peer that may be a confined process is refused. On systems
// other than Linux, no peer can be identified.
//
// The rules are in docs/spec/wire.md §1.5.
package peercred
