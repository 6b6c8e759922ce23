package launcher

import (
	"errors"
	"fmt"
	"strconv"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// This file is the second wall of the namespaces. If a namespace is left out by a mistake, the command has the host's, and
// reaches the host's loopback, abstract sockets or processes. So the first process inside compares the identity of each
// namespace with that of the launcher, and nothing runs if they are equal. The check uses the policy, and not the flags that
// were passed to clone.

// namespaceFlags maps the names of namespaces in /proc to the flags of clone.
var namespaceFlags = map[string]uintptr{
	"user": unix.CLONE_NEWUSER, "mnt": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS,
	"net": unix.CLONE_NEWNET,
}

// ownKinds returns the kinds of namespaces that a command must not share with the host.
func (l *launch) ownKinds() []string {
	kinds := []string{"user", "mnt", "pid", "ipc", "uts"}
	if l.plan.Network != plan.NetworkOn && !l.helper {
		kinds = append(kinds, "net")
	}
	return kinds
}

// namespacePath returns the path of a process's namespace. process is a number or "self".
func namespacePath(process, kind string) string { return "/proc/" + process + "/ns/" + kind }

// namespaceOf returns the identity of a namespace of a process.
func namespaceOf(process, kind string) (st unix.Stat_t, err error) {
	name := namespacePath(process, kind)
	if err := unix.Stat(name, &st); err != nil {
		return st, fmt.Errorf("look at %s: %w", name, err)
	}
	return st, nil
}

// checkOwn appends steps that end the init if a namespace is the launcher's. They come before the steps that build the
// view, because they need the host's /proc.
func checkOwn(p *initproc.Program, kinds []string) error {
	for _, kind := range kinds {
		st, err := namespaceOf("self", kind)
		if err != nil {
			return err
		}
		p.Differ("leave the launcher's namespace", namespacePath("self", kind), uint64(st.Dev), st.Ino)
	}
	return nil
}

// errShared returns the error for a namespace that is the launcher's.
func errShared(kind string) error {
	return errors.New("cannot make the sandbox: the namespace " + kind + " is the one of the launcher")
}

// checkOwnOf returns an error if a namespace of a process, which bwrap has made, is the launcher's.
func (l *launch) checkOwnOf(pid int) error {
	for _, kind := range l.ownKinds() {
		ours, err := namespaceOf("self", kind)
		if err != nil {
			return err
		}
		theirs, err := namespaceOf(strconv.Itoa(pid), kind)
		if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
			continue // a set-user-ID bwrap: the namespaces belong to root
		}
		if err != nil {
			return err
		}
		if ours.Dev == theirs.Dev && ours.Ino == theirs.Ino {
			return errShared(kind)
		}
	}
	return nil
}
