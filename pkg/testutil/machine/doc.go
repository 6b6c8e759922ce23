// Package machine skips tests on machines that lack the features of a sandbox backend: namespaces
// and mount calls, bubblewrap, or Landlock.
//
// The package itself asks the kernel, and not the launcher or codex doctor: if these were broken, a
// test that relied on them would be skipped instead of failing.
//
// RefuseCalls makes system calls fail for the calling process, as if the machine lacked them.
//
// To test a feature, the package starts the importing program again, with the variable
// TESTUTIL_MACHINE set. That process ends before the program's own initialization.
package machine
