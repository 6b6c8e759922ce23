//go:build !linux

package peercred

import "syscall"

// Carried marks nothing, because servers cannot identify their peers on this system.
func Carried(_, _ string, _ syscall.RawConn) error { return nil }
