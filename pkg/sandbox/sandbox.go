// Package sandbox groups the packages that confine commands and file requests:
//
//	permissions   profiles of clients, and the policy that a profile means on this file system
//	plan          the plan that a sandbox carries out, from a policy
//	placeholders  what a sandbox puts into the host's directories, and who removes it
//	bwrap         what bwrap is told of a plan, and whether it has done that
//	mountinfo     the mounts of a process
//	runner        starts the launcher for a server
//	egress        the network proxy of a process; proxybridge and transparent: how the command comes to it
//	doctor        finds out what a machine can enforce
//	winsandbox    the rules for Windows hosts
//
// The program that carries plans out is cmd/codex-linux-sandbox. It imports permissions, plan, placeholders,
// bwrap, proxybridge and transparent. It must import none of the others, because it must be trusted and is
// started for every command.
package sandbox

// LauncherName is the name of the launcher's program.
const LauncherName = "codex-linux-sandbox"
