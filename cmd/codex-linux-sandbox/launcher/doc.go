// Package launcher is codex-linux-sandbox: a program that confines itself and then executes a command
// (docs/spec/sandbox.md §7; docs/sandbox-design.md gives the reasons). docs/processes.md draws the processes: the
// launcher stays outside and waits, the init is the first process inside, and the init forks the process that becomes
// the command.
//
// It turns options into a policy and a plan (pkg/sandbox/plan), carries the plan out by one of three backends,
// and undoes afterwards what it has changed outside (pkg/sandbox/placeholders). What runs without a Go runtime is in package initproc,
// and the calls that are made or answered for the command are in package mediate: this package imports both,
// and neither imports it. It may import what pkg/sandbox/sandbox.go says, pkg/host/warmstart, pkg/host/limiter
// and pkg/wire/jsonwire.
//
// Read it in this order:
//
//	main.go         the whole run, from the options to the end of the command
//	args.go         the options
//	policy.go       profile and plan, from the options
//	namespaces.go   the usual backend: the steps of the init, in the order in which it makes them
//	mount.go        the view: mounts
//	confine.go, landlock.go, wall.go, limits.go   privileges, Landlock, limits
//	supervise.go    the launcher while the command runs: signals, reports, the end
//	bwrap.go, bwrapstage.go, bwraptalk.go, bwrapfailed.go   the backend that lets bwrap make the namespaces
//	placeholders.go, janitor.go   placeholders, and who removes them if the launcher is killed
//	descriptors.go  what the command inherits
//	proxy.go        the way to managed proxies
//	standby.go      a launcher that a server has started ahead of need
//	explain.go      --explain and --probe
package launcher
