package execclient

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup keeps Ctrl-C from the command, because it is meant for this program.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// endGroup does nothing: on Windows, only the end of its stdin can ask a command to end.
func endGroup(*os.Process) {}

// killGroup kills the command, but not its descendants.
func killGroup(p *os.Process) { _ = p.Kill() }
