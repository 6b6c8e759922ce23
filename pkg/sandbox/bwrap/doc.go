// Package bwrap is the plan as bwrap understands it, and the check of what bwrap has done (docs/sandbox-design.md, "bwrap").
//
// bwrap looks paths up itself and follows links. So the second stage, which runs inside, compares what is mounted
// with what the plan saw: Binds writes that down outside, and CheckBinds and CheckWritable read it inside.
//
// It knows plans and the options of bwrap, and starts nothing: the launcher does. It may import plan, mountinfo and permissions.
//
// Read arguments.go first, then check.go, then wall.go: what the second stage grants by Landlock.
package bwrap
