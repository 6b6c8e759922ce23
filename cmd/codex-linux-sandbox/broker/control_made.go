//go:build sandbox_broker_control

package broker

import "golang.org/x/sys/unix"

const Control = true

var refused = reply{errno: unix.EACCES}
