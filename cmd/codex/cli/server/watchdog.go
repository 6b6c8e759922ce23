// Package server has the command codex exec-server.
package server

// WatchdogArg makes the program the watchdog of a server; see
// process.Options. It is no command: nobody but the server uses it.
const WatchdogArg = "--codex-run-as-watchdog"

// KeeperArg makes the program the keeper of a detached process; see
// execserver.RunKeeper. Only a server uses it.
const KeeperArg = "--codex-run-as-keeper"

// LimiterArg makes the program one that lowers its resource limits and executes
// another one; see process.Options. It is no command either.
const LimiterArg = "--codex-run-as-limiter"
