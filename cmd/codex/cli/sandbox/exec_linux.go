package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"codex.internal/cmd/codex/cli/cmdutil"
	"golang.org/x/sys/unix"
)

const (
	launcherName = "codex-linux-sandbox"
	// maxArgument is the longest profile that is passed as an argument: the
	// kernel accepts 128 KiB. A longer one is passed in memory.
	maxArgument = 100 << 10
)

// exec replaces this process by the launcher, which then handles the signals, the terminal and the exit
// code. It returns only after an error, or if the command has a network proxy, which runs in this process.
func (l *localLaunch) exec() error {
	if l.endpoints.Any() {
		return l.runProxied()
	}
	launcher, err := findLauncher()
	if err != nil {
		return &cmdutil.ExitError{Code: notStarted, Err: err}
	}
	args, err := l.launcherArgs(inMemory)
	if err != nil {
		return &cmdutil.ExitError{Code: notStarted, Err: err}
	}
	if l.offline {
		// Programs written for Codex CLI's sandbox, such as tests that need a network, look at this variable.
		_ = os.Setenv("CODEX_SANDBOX_NETWORK_DISABLED", "1")
	}
	err = syscall.Exec(launcher, args, os.Environ())
	return &cmdutil.ExitError{Code: notStarted, Err: fmt.Errorf("start the launcher %s: %w; install codex again", launcher, err)}
}

// launcherArgs returns the launcher's arguments. It passes a long profile to pass, which returns
// the number of the descriptor from which the launcher reads it.
func (l *localLaunch) launcherArgs(pass func(profile []byte) (fd int, err error)) ([]string, error) {
	args := append([]string{launcherName}, l.args...)
	switch {
	case l.profile == nil:
	case len(l.profile) <= maxArgument:
		args = append(args, "--permission-profile", string(l.profile))
	default:
		fd, err := pass(l.profile)
		if err != nil {
			return nil, fmt.Errorf("pass the profile to the launcher: %w", err)
		}
		args = append(args, "--permission-profile-fd", strconv.Itoa(fd))
	}
	if len(l.command) > 0 {
		args = append(append(args, "--"), l.command...)
	}
	return args, nil
}

// findLauncher finds the launcher in the same way as launch.Runtime: beside this program, or as
// this program itself under the launcher's name.
func findLauncher() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	beside := filepath.Join(filepath.Dir(self), launcherName)
	if unix.Access(beside, unix.X_OK) == nil {
		return beside, nil
	}
	return "/proc/self/exe", nil
}

// inMemory returns a descriptor of a memory file with the text. Child processes inherit the descriptor.
func inMemory(text []byte) (int, error) {
	fd, err := unix.MemfdCreate("profile", 0)
	if err != nil {
		return 0, err
	}
	for len(text) > 0 {
		n, err := unix.Write(fd, text)
		if err != nil {
			return 0, err
		}
		text = text[n:]
	}
	return fd, nil
}
