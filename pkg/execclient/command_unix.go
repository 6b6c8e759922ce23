//go:build unix

package execclient

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup starts the command in its own process group, because the terminal's keys are for
// this program.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup sends SIGTERM to the command's group.
func endGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

// killGroup kills the command's group.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
