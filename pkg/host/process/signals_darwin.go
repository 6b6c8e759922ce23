package process

import (
	"os/signal"
	"syscall"
)

// isIgnored reports whether this program ignores a signal. SIGHUP and SIGINT are the only ones
// that the Go runtime leaves ignored. The other inherited dispositions cannot be read on macOS;
// the runtime handles most of them, so children start with the default.
func isIgnored(sig syscall.Signal) bool { return signal.Ignored(sig) }

// UnblockSignals does nothing on macOS: without the C library a program can
// neither read nor change the signal mask that it inherited. If the server is
// started with signals blocked, its processes have the same signals blocked.
func UnblockSignals() error { return nil }
