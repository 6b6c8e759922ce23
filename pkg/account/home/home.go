// Package home finds the home directory of codex, reads its environment file and its settings, and
// creates a directory of aliases for the PATH of processes that the server starts.
//
//	dir, err := home.Find()
//	...
//	err = home.LoadDotenv(dir)
//	aliases, err := home.MakeAliases(dir, os.TempDir(), self, names)
//	...
//	defer aliases.Close()
//
// The rules are in docs/spec/client.md §7.
package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ClientKeys is the directory in the home directory that contains client keys. By these keys,
// servers behind a rendezvous service identify the client to which a detached process belongs.
const ClientKeys = "client-keys"

// Variable is the environment variable that sets the home directory. If it is not set, the home
// directory is ~/.codex.
const Variable = "CODEX_HOME"

// Find returns the path of the home directory. If CODEX_HOME is set, it is that directory with
// symbolic links resolved, which must exist. Otherwise it is ~/.codex, which may be missing.
func Find() (string, error) {
	named := os.Getenv(Variable)
	if named == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", errors.New("Could not find home directory") //lint:ignore ST1005 Codex CLI's text
		}
		return filepath.Join(home, ".codex"), nil
	}
	st, err := os.Stat(named)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s points to %q, but that path does not exist", Variable, named)
	case err != nil:
		return "", fmt.Errorf("failed to read %s %q: %w", Variable, named, cause(err))
	case !st.IsDir():
		return "", fmt.Errorf("%s points to %q, but that path is not a directory", Variable, named)
	}
	real, err := filepath.EvalSymlinks(named)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return "", fmt.Errorf("failed to canonicalize %s %q: %w", Variable, named, cause(err))
	}
	return real, nil
}

// Make creates the directory in CODEX_HOME if only its last element is missing, for services that start on an empty
// volume. The directory is private. Without CODEX_HOME, Make does nothing.
func Make() error {
	named := os.Getenv(Variable)
	if named == "" {
		return nil
	}
	if err := os.Mkdir(named, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s points to %q, which cannot be made: %w", Variable, named, cause(err))
	}
	return nil
}

// cause returns an error without the path, which the message already contains.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Detached returns the directory below which the servers of this user keep detached processes by
// default. It returns "" if the user has no home directory. This directory is not in the home
// directory that Find returns.
func Detached() string {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home, err := os.UserHomeDir()
		if err != nil || !filepath.IsAbs(home) {
			return ""
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "codex", "detached")
}
