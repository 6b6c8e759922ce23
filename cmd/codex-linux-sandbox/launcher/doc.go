// Package launcher is codex-linux-sandbox: a program that confines itself and then executes a command (docs/spec/sandbox.md §7;
// docs/sandbox-design.md gives the reasons). docs/processes.md draws the processes: the launcher stays outside and waits, the
// init is the first process inside, and the init forks the process that becomes the command.
//
// It turns options into a policy and a plan (pkg/sandbox/plan), and carries the plan out with one of three backends. Afterwards
// it undoes its changes outside (pkg/sandbox/placeholders). Package initproc contains the code that runs without a Go runtime.
// Package mediate makes and answers system calls for the command. This package imports both, and neither imports it. It may also
// import the packages that pkg/sandbox/sandbox.go lists, pkg/host/warmstart, pkg/host/limiter and pkg/wire/jsonwire.
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
//	placeholders.go, janitor.go   placeholders, and the janitor, which removes them if the launcher is killed
//	descriptors.go  the descriptors that the command inherits
//	proxy.go        routes to managed proxies
//	standby.go      a launcher that a server has started ahead of need
//	explain.go      --explain and --probe
//	owner.go        what a sandbox of root may not do in a workspace of another user
package launcher
