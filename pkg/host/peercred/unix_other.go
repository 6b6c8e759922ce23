//go:build !linux && !darwin

package peercred

import "net"

func userOfUnix(*net.UnixConn) (int, error)   { return 0, errUnsupported }
func identifyUnix(*net.UnixConn) (int, error) { return 0, refuse("%v", errUnsupported) }
