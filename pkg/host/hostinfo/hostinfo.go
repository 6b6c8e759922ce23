// Package hostinfo tells what a client wants to know about the server's
// machine (sections 7 and 8.1 of the protocol): the user's shell, the platform
// and some directories, as native paths.
//
//	info := hostinfo.Read() // once per server: nothing of it changes
//
// It asks the environment, the kernel and /etc/passwd, and starts nothing.
package hostinfo

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// Info describes the machine as it was when Read looked. Paths are native,
// absolute and clean, or empty when they are unknown; they need not exist.
type Info struct {
	// Shell is what to run a user's command lines with.
	Shell Shell
	// Cwd is the server's working directory, without symbolic links.
	Cwd string
	// TempDir is where temporary files go: TMPDIR, or the platform's default.
	TempDir string
	// Home is the user's home: HOME, or what the user database says. A HOME
	// that is not absolute is wrong, and Home is then empty.
	Home string
	// TemporaryDirectories are those that TMPDIR names; none if it is unset.
	TemporaryDirectories []string
	// PlatformOS is the operating system in the words of the protocol:
	// "linux", "macos", "windows"…
	PlatformOS string
}

// Read looks at the machine. What cannot be found out is left empty, except
// that there is always a Shell. It reads at most maxUserDatabase bytes and is
// meant to be called once; the result can be shared.
func Read() Info {
	// Not os.Getwd, which believes PWD.
	cwd, err := syscall.Getwd()
	if err != nil || !filepath.IsAbs(cwd) {
		cwd = "" // removed, or outside the root
	}
	return describe(machine{
		getenv: os.Getenv,
		user:   lookupUser("/etc/passwd", os.Getuid()),
		cwd:    cwd,
		goos:   runtime.GOOS,
		runs:   runs,
	})
}

// machine is what describe has to know about the world.
type machine struct {
	getenv func(name string) string
	user   account
	cwd    string
	goos   string
	runs   func(path string) bool // whether a path is a program
}

func describe(m machine) Info {
	info := Info{
		Cwd:        m.cwd,
		TempDir:    "/tmp",
		Home:       m.user.home,
		PlatformOS: m.goos,
		Shell:      chooseShell(m.user.shell, m.getenv("PATH"), m.runs),
	}
	if info.PlatformOS == "darwin" {
		info.PlatformOS = "macos"
	}
	if home := m.getenv("HOME"); home != "" {
		info.Home = home
	}
	if info.Home = filepath.Clean(info.Home); !filepath.IsAbs(info.Home) {
		info.Home = ""
	}
	if dir := absolute(m.getenv("TMPDIR"), m.cwd); dir != "" {
		info.TempDir = dir
		info.TemporaryDirectories = []string{dir}
	}
	return info
}

// absolute returns a path seen from a working directory, or nothing.
func absolute(path, cwd string) string {
	switch {
	case path == "":
		return ""
	case filepath.IsAbs(path):
		return filepath.Clean(path)
	case cwd == "":
		return ""
	default:
		return filepath.Join(cwd, path)
	}
}
