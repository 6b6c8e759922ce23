package execclient

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup keeps Ctrl-C, which is meant for this program, from the command.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// endGroup does nothing: the end of its stdin is all that the command can be
// told here.
func endGroup(*os.Process) {}

// killGroup kills the command, and not its descendants.
func killGroup(p *os.Process) { _ = p.Kill() }
