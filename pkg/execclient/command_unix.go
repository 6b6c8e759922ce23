//go:build unix

package execclient

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup keeps the terminal's keys, which are meant for this program, from
// the command.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup asks the command's group to end.
func endGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

// killGroup ends the command's group.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
