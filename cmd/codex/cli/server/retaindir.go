package server

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/account/home"
	"codex.internal/pkg/host/safeopen"
	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
)

// retainNone is the value of --retain-dir that turns detached processes off.
const retainNone = "none"

// retainDir returns the directory of --retain-dir. It returns "" if detached processes are turned off. By default
// each server has its own directory, which the next server at the same place finds. Two servers of one user must
// not list, kill or forget each other's processes, and the names of their processes must not conflict.
func retainDir(c *cli.Context) (string, error) {
	flag := c.String("retain-dir")
	switch {
	case flag == retainNone:
		return "", nil
	case cmdutil.IsSet(c, "retain-dir") && !filepath.IsAbs(flag):
		return "", cmdutil.Usagef("--retain-dir %s: give an absolute path, or %s", flag, retainNone)
	case cmdutil.IsSet(c, "retain-dir"):
		return flag, nil
	}
	state := home.Detached()
	if state == "" {
		return "", nil
	}
	return filepath.Join(state, placeOf(c)), nil
}

// placeOf returns a name for the place where clients find the server: its first --listen, or its environment at a
// registry. All servers on stdin and stdout have the same name. Each serves one connection, and the next server,
// for example through ssh, must find the detached processes of the previous one.
func placeOf(c *cli.Context) string {
	kind, place := "remote-", c.String("remote")+" "+c.String("environment-id")
	if !cmdutil.IsSet(c, "remote") {
		where, err := parseListen(c.StringSlice("listen")[0])
		switch {
		case err != nil:
			return "" // parseListeners returns this error
		case where.stdio:
			return "stdio"
		}
		kind, place = "listen-", where.socket
		if place == "" {
			place = where.addr.String()
		}
	}
	digest := sha256.Sum256([]byte(place))
	return kind + hex.EncodeToString(digest[:8])
}

// maxAnyPort bounds the number of servers of a user that run at the same time, listen on any free
// port of an address and keep detached processes.
const maxAnyPort = 64

// claimRetainDir returns the directory of a server that listens on any free port: the first one that no running
// server uses. So a server finds the detached processes of the previous server, and two servers at the same time
// have different directories. A server on a fixed address needs no claim: only one server at a time can have the
// address, and the next one may start while the old one still ends its processes. The caller must call release at
// the end.
func claimRetainDir(c *cli.Context, dir string, log *slog.Logger) (claimed string, release func()) {
	release = func() {}
	if dir == "" || cmdutil.IsSet(c, "retain-dir") || cmdutil.IsSet(c, "remote") {
		return dir, release
	}
	where, err := parseListen(c.StringSlice("listen")[0])
	if err != nil || where.stdio || where.socket != "" || where.addr.Port() != 0 {
		return dir, release
	}
	root, err := safeopen.PrivateDir(filepath.Dir(dir), true)
	if err != nil {
		return dir, release // the first detached process will be refused for the same reason
	}
	defer root.Close()
	for i := range maxAnyPort {
		name := dir + "-" + strconv.Itoa(i+1)
		lock, err := root.OpenFile(filepath.Base(name)+".lock", os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return dir, release
		}
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return name, func() { _ = lock.Close() }
		}
		_ = lock.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return dir, release
		}
	}
	log.Warn("detached processes are not available", "reason", "more than "+strconv.Itoa(maxAnyPort)+" servers listen on any free port; give one a port or --retain-dir")
	return "", release
}
