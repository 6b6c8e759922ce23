// Package server implements the command codex exec-server.
package server

// WatchdogArg makes the program the watchdog of a server; see process.Options. Only a server uses it.
const WatchdogArg = "--codex-run-as-watchdog"

// KeeperArg makes the program the keeper of a detached process; see
// execserver.RunKeeper. Only a server uses it.
const KeeperArg = "--codex-run-as-keeper"
