// Package machine skips tests on machines that lack the features of a sandbox backend: namespaces
// and mount calls, bubblewrap, or Landlock.
//
// It asks the kernel itself, and not the launcher or codex doctor. a test that relied on these would
// be skipped if they are broken, instead of failing.
//
// RefuseCalls makes system calls fail for the calling process, as if the machine lacked them.
//
// To test a feature, the package starts the importing program again, with the variable
// TESTUTIL_MACHINE; that process ends before the program's own initialization.
package machine
