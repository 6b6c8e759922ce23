//go:build !linux

package egress

import (
	"errors"
	"os"
)

// Redirect closes the socket and returns an error: only Linux has launchers that
// send connections.
func (x *Proxy) Redirect(socket *os.File) error {
	return errors.Join(errors.ErrUnsupported, socket.Close())
}
