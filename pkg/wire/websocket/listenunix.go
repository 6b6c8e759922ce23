//go:build unix

package websocket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// socketMode permits only this user to connect.
const socketMode = 0o600

// ListenUnix listens on a Unix socket to which only this user may connect. The mode of the file
// is that strict from the beginning. A killed server leaves a socket without a listener behind:
// ListenUnix replaces it. Any other file at the path is an error. Close removes the socket,
// unless another socket has replaced it. ListenUnix must be called while no other goroutine
// creates files, because it changes the process's umask for a moment.
func ListenUnix(ctx context.Context, path string) (net.Listener, error) {
	if most := len(syscall.RawSockaddrUnix{}.Path) - 1; len(path) > most {
		return nil, fmt.Errorf("a socket's path has at most %d bytes, and this one has %d", most, len(path))
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		// Linux copies the mode of the socket to the file. This also works in a directory with
		// a default ACL, where the umask does not apply.
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), socketMode) })
	}}
	umask := syscall.Umask(0o777 &^ socketMode)
	l, err := config.Listen(ctx, "unix", path)
	syscall.Umask(umask)
	if err != nil {
		return nil, err
	}
	u := l.(*net.UnixListener)
	u.SetUnlinkOnClose(false)
	info, err := os.Lstat(path)
	if err == nil && info.Mode() != os.ModeSocket|socketMode {
		err = fmt.Errorf("%s has the mode %v in place of %04o", path, info.Mode(), socketMode)
	}
	if err != nil {
		_ = u.Close()
		return nil, err
	}
	return &unixListener{Listener: u, path: path, made: info}, nil
}

// unixListener removes its socket when it is closed. It does not remove another socket at the
// same path.
type unixListener struct {
	net.Listener
	path string
	made os.FileInfo
	once sync.Once
}

// Close implements net.Listener.
func (l *unixListener) Close() error {
	l.once.Do(func() {
		if info, err := os.Lstat(l.path); err == nil && os.SameFile(info, l.made) {
			_ = os.Remove(l.path)
		}
	})
	return l.Listener.Close()
}

// removeStale removes a socket without a listener. In the meantime another server may start to
// listen at the same path. Therefore removeStale renames the file first, and renames it back if
// it is not the one that was checked.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket; name another path, or remove it", path)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close()
		return fmt.Errorf("a server listens on %s already", path)
	case errors.Is(err, os.ErrNotExist):
		return nil
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s exists, and it is unknown whether a server listens on it: %w", path, err)
	}
	aside, err := os.MkdirTemp(filepath.Dir(path), ".codex-socket-")
	if err != nil {
		return fmt.Errorf("remove the socket of a server that has ended: %w", err)
	}
	defer os.Remove(aside)
	moved := aside + "/s"
	if err := os.Rename(path, moved); err != nil {
		return fmt.Errorf("remove the socket of a server that has ended: %w", err)
	}
	now, err := os.Lstat(moved)
	if err == nil && os.SameFile(now, info) {
		return os.Remove(moved)
	}
	if err := os.Rename(moved, path); err != nil {
		return fmt.Errorf("restore the file that replaced %s: %w", path, err)
	}
	return fmt.Errorf("another server has just begun to listen on %s", path)
}
