package hostinfo

import (
	"os"
	"path/filepath"
	"slices"
)

// Shell is a command interpreter: its name, which tells a client how to speak
// to it, and its absolute path.
type Shell struct{ Name, Path string }

// loginShells are the login shells that are told to clients. A client that
// does not know a name falls back to the shell of its own machine, which need
// not exist here, so every other login shell is passed over for one that all
// clients know.
var loginShells = []string{"bash", "zsh", "sh", "fish"}

// fallbackShells stand in for a login shell that cannot be used, best first.
var fallbackShells = []string{"bash", "zsh"}

// usualPlaces are where a fallback is looked for besides PATH, which a service
// manager may have left unset.
var usualPlaces = []string{"/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin"}

// chooseShell takes the login shell if clients can be told about it and it is
// there, else the first fallback that is there, else /bin/sh. Of path, the
// value of PATH, only absolute directories count: the others depend on where
// the server happens to stand.
func chooseShell(login, path string, runs func(string) bool) Shell {
	if name := filepath.Base(login); filepath.IsAbs(login) && slices.Contains(loginShells, name) && runs(login) {
		return Shell{Name: name, Path: login}
	}
	places := append(filepath.SplitList(path), usualPlaces...)
	for _, name := range fallbackShells {
		for _, dir := range places {
			if file := filepath.Join(dir, name); filepath.IsAbs(dir) && runs(file) {
				return Shell{Name: name, Path: file}
			}
		}
	}
	return Shell{Name: "sh", Path: "/bin/sh"}
}

// runs reports whether a path is a program, as far as its mode tells.
func runs(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
}
