package launcher

import (
	"fmt"
	"os"
	"path"

	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// In a sandbox of root the command has no capabilities, and with namespaces root is its only user. So it may do with the files of other
// users only what their modes permit to everybody. A server of root over a workspace of another user is used so, in containers for
// example, and "Permission denied" does not say why.

// otherOwner returns what is wrong if this is root and a path belongs to another user; otherwise "".
func otherOwner(name string) string {
	var st unix.Stat_t
	if os.Geteuid() != 0 || unix.Stat(name, &st) != nil || st.Uid == 0 {
		return ""
	}
	return fmt.Sprintf("%s belongs to user %d: a sandbox of root may do there only what everybody may; run the server or command as that user", name, st.Uid)
}

// deniedBy returns what otherOwner says about a path, or else about the directories above it. Paths of a view are relative to its root.
func deniedBy(name string) string {
	for name = path.Join("/", name); name != "/"; name = path.Dir(name) {
		if text := otherOwner(name); text != "" {
			return text
		}
	}
	return ""
}

// explainOwners returns a line for each writable path of another user.
func (l *launch) explainOwners() (text string) {
	for _, m := range l.plan.Mounts {
		if m.Kind == plan.BindWritable && !m.Pin {
			if problem := otherOwner(m.Target); problem != "" {
				text += "owner: " + problem + "\n"
			}
		}
	}
	return text
}
