// Package info describes the server's machine for clients
// (docs/spec/wire.md §7.1): the user's shell, the platform and some directories,
// as native paths.
//
//	i := info.Read() // once per server
//
// It reads the environment and /etc/passwd and asks the kernel. It starts no
// process.
package info

import (
	"os"
	"path/filepath"
	"syscall"
)

// Info describes the machine at the time of Read. Paths are native, absolute and clean, or empty if
// unknown. They need not exist.
type Info struct {
	// Shell runs a user's command lines.
	Shell Shell
	// Cwd is the server's working directory, without symbolic links.
	Cwd string
	// TempDir is the directory for temporary files: TMPDIR, or the platform's default.
	TempDir string
	// Home is the user's home: HOME or, if HOME is unset, the home in the user database. It is
	// empty if HOME is not absolute.
	Home string
	// TemporaryDirectories has the directory of TMPDIR; it is empty if TMPDIR is unset.
	TemporaryDirectories []string
	// PlatformOS is the operating system in the words of the protocol: "linux".
	PlatformOS string
}

// Read describes the machine. Unknown fields are empty; Shell is always set. It
// reads at most maxUserDatabase bytes of /etc/passwd.
func Read() Info {
	// os.Getwd is not used, because it trusts PWD.
	cwd, err := syscall.Getwd()
	if err != nil || !filepath.IsAbs(cwd) {
		cwd = "" // removed, or outside the root
	}
	return describe(machine{
		getenv: os.Getenv,
		user:   lookupUser("/etc/passwd", os.Getuid()),
		cwd:    cwd,
		runs:   runs,
	})
}

// machine is the input of describe.
type machine struct {
	getenv func(name string) string
	user   account
	cwd    string
	runs   func(path string) bool // whether a path is a program
}

func describe(m machine) Info {
	info := Info{
		Cwd:        m.cwd,
		TempDir:    "/tmp",
		Home:       m.user.home,
		PlatformOS: "linux",
		Shell:      chooseShell(m.user.shell, m.getenv("PATH"), m.runs),
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

// absolute converts a path relative to a working directory to an absolute path. It returns "" if
// that is not possible.
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
