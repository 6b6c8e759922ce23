package cli

// WatchdogArg makes the program the watchdog of a server; see
// process.Options. It is no command: nobody but the server uses it.
const WatchdogArg = "--codex-run-as-watchdog"
