// Package bwrap turns a plan into arguments of bwrap, and checks what bwrap has mounted
// (docs/sandbox-design.md, "bwrap").
//
// bwrap looks paths up itself and follows links. So the second stage, which runs inside the
// sandbox, compares the mounts with the files that the plan saw. Binds records those files outside,
// and CheckBinds and CheckWritable check them inside.
//
// The package does not start bwrap; the launcher does. It may import plan, mountinfo and
// permissions.
//
// Read arguments.go first, then check.go, then wall.go, which grants rights by Landlock in the
// second stage.
package bwrap
