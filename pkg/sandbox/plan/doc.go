// Package plan turns a policy into a plan: the root of the view, the mounts in their order, the masks, the network and
// the filter of system calls (docs/spec/sandbox.md §7.2; docs/sandbox-design.md gives the reasons). Every backend of
// the launcher enforces the whole plan or refuses it.
//
// It uses profiles and policies (permissions), mount points and masks, the rights of Landlock, and
// classic BPF. It does not mount, create or remove anything, and does not depend on processes or
// bwrap. Make and MakeReading see the file system only through a permissions.View. HostView is the
// view of this machine. Only hostview.go, walk.go, kernelfs.go and mark.go make system calls. The
// package may import permissions and mountinfo, and must not import placeholders.
//
// Read it in this order:
//
//	plan.go        Plan and Mount, and how a plan is made
//	planner.go     what may be written and what is denied: effective paths, and links that are refused
//	mounts.go, masks.go, readable.go   the mounts: writable roots, protected names, denied paths, what may be read
//	snapshot.go    one answer for each path, and the comparison with the file system in the end
//	within.go      a policy that must not leave a directory
//	filter.go      the system calls that are refused
//	landlock.go, wall.go   the plan for Landlock: as a backend, and on top of mounts
//	describe.go    the plan for people
//
// plan_test.go has a table of policies and their plans. model_test.go and trial_test.go compare plans of random policies with
// what the policy says, on a file system in memory.
package plan
