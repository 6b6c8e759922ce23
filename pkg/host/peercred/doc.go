// Package peercred identifies the user of the process at the other end of a
// connection within this machine, and whether a sandbox confines that process.
//
// A loopback port is open to every local user, and to sandboxed commands that
// have the network. A server without tokens therefore admits a peer only if the
// kernel says that the peer's socket belongs to the server's own user or to
// root, and if no confined process holds that socket:
//
//	peer, err := peercred.Identify(conn)
//	if err != nil {
//		// refuse: err says why
//	}
//
// The user of a TCP socket comes from the kernel's socket diagnosis, that of a
// Unix socket from SO_PEERCRED. The processes that hold the socket are found
// by its inode in /proc/PID/fd: all of them count, because a confined process
// may leave its socket to a child. A process counts as confined if it
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
