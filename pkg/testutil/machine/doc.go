// Package machine skips tests on machines that lack what a backend of the sandbox is made of:
// namespaces and the calls that make mounts, bubblewrap, or Landlock.
//
// It asks the kernel itself, and not the launcher or codex doctor. A test that asks these is skipped
// when they are broken, which is when it must fail.
//
// RefuseCalls makes the machine one that lacks system calls, for the process that calls it.
//
// Programs that import this package are started again by it, with the variable TESTUTIL_MACHINE, and
// end before their own initialization.
package machine
