package info

import (
	"os"
	"path/filepath"
	"slices"
)

// Shell is a command interpreter. Name is the name by which a client chooses the syntax of command
// lines. Path is absolute.
type Shell struct{ Name, Path string }

// loginShells are the login shells that are reported to clients. A client that
// does not know a name falls back to the shell of its own machine, which may not
// exist here. So for any other login shell, one of fallbackShells is reported.
var loginShells = []string{"bash", "zsh", "sh", "fish"}

// fallbackShells replace a login shell that cannot be used, best first.
var fallbackShells = []string{"bash", "zsh"}

// usualDirectories are searched for a fallback after PATH, which a service manager
// may have left unset.
var usualDirectories = []string{"/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin"}

// chooseShell returns the login shell if it is one of loginShells and exists. Otherwise it returns
// the first of fallbackShells that exists, or /bin/sh. Relative directories in path, the value of
// PATH, are ignored, because they depend on the working directory.
func chooseShell(login, path string, runs func(string) bool) Shell {
	if name := filepath.Base(login); filepath.IsAbs(login) && slices.Contains(loginShells, name) && runs(login) {
		return Shell{Name: name, Path: login}
	}
	directories := append(filepath.SplitList(path), usualDirectories...)
	for _, name := range fallbackShells {
		for _, dir := range directories {
			if file := filepath.Join(dir, name); filepath.IsAbs(dir) && runs(file) {
				return Shell{Name: name, Path: file}
			}
		}
	}
	return Shell{Name: "sh", Path: "/bin/sh"}
}

// runs reports whether a path is a regular file with an execute permission.
func runs(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
}
