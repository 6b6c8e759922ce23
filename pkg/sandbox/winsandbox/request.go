package winsandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Selector is the first argument of a program that must act as the wrapper.
const Selector = "--run-as-windows-sandbox"

// These describe how the wrapper reports an error: the text after this prefix on stderr, and the
// exit code.
const (
	ErrorPrefix = "windows sandbox failed: "
	ExitFailed  = 1
)

// The wrapper's flags. They have a value unless a comment says otherwise.
const (
	flagCodexHome         = "--codex-home"
	flagCommandCwd        = "--command-cwd"
	flagPermissionProfile = "--permission-profile"
	flagEnv               = "--env-json"
	flagLevel             = "--windows-sandbox-level"
	flagWorkspaceRoot     = "--workspace-root"                       // may be repeated
	flagPrivateDesktop    = "--windows-sandbox-private-desktop"      // no value
	flagProxyEnforced     = "--proxy-enforced"                       // no value
	flagPreserveProxy     = "--preserve-proxy-settings"              // no value
	flagReadRoots         = "--read-roots-json"                      // also an empty list
	flagPlatformDefaults  = "--read-roots-include-platform-defaults" // no value
	flagWriteRoots        = "--write-roots-json"                     // also an empty list
	flagDenyRead          = "--deny-read-paths-json"
	flagDenyWrite         = "--deny-write-paths-json"
	separator             = "--"
)

// Level is how strongly commands are confined.
type Level string

// The levels.
const (
	Disabled        Level = "disabled"
	RestrictedToken Level = "restricted-token"
	Elevated        Level = "elevated"
)

func (l Level) check() error {
	switch l {
	case Disabled, RestrictedToken, Elevated:
		return nil
	default:
		return fmt.Errorf("invalid windows sandbox level: %s", string(l))
	}
}

// Request is a request to the wrapper: a command and how to confine it.
type Request struct {
	// CodexHome, CommandCwd and WorkspaceRoots are absolute. Without roots, the
	// command's directory is used.
	CodexHome, CommandCwd string
	WorkspaceRoots        []string
	// PermissionProfile is JSON, handed on byte by byte.
	PermissionProfile json.RawMessage
	// Env is the command's whole environment; nil and empty are the same.
	Env            map[string]string
	Level          Level
	PrivateDesktop bool
	ProxyEnforced  bool
	ProxySettings  Mode
	// ReadRoots and WriteRoots replace those of the profile, also when they are
	// empty; nil: the profile counts.
	ReadRoots, WriteRoots []string
	// PlatformDefaults adds the system's directories to ReadRoots.
	PlatformDefaults bool
	// DenyReadPaths and DenyWritePaths are absolute; nil and empty are the
	// same.
	DenyReadPaths, DenyWritePaths []string
	// Command is the program and its arguments.
	Command []string
}

// errNoCommand means that there is nothing to run.
var errNoCommand = errors.New("missing sandboxed command in windows sandbox wrapper request")

// check refuses requests that ParseArgs would not return.
func (r *Request) check() error {
	for _, p := range []struct{ flag, path string }{{flagCodexHome, r.CodexHome}, {flagCommandCwd, r.CommandCwd}} {
		if p.path == "" {
			return missing(p.flag)
		}
		if err := mustBeAbsolute(p.flag, p.path); err != nil {
			return err
		}
	}
	for _, root := range r.WorkspaceRoots {
		if err := mustBeAbsolute(flagWorkspaceRoot, root); err != nil {
			return err
		}
	}
	if r.Level == "" {
		return missing(flagLevel)
	}
	if err := r.Level.check(); err != nil {
		return err
	}
	if err := checkProfile(string(r.PermissionProfile)); err != nil {
		return err
	}
	if len(r.Command) == 0 {
		return errNoCommand
	}
	return nil
}

// Args returns the arguments that ask the wrapper for r, Selector first.
// ParseArgs returns r again, with the command's directory in place of missing
// workspace roots. It is an error if that is impossible: for a path that is not
// absolute, or a string with invalid UTF-8 that is encoded as JSON.
func (r *Request) Args() ([]string, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	env, err := encodeEnv(r.Env)
	if err != nil {
		return nil, err
	}
	args := []string{
		Selector,
		flagCodexHome, r.CodexHome,
		flagCommandCwd, r.CommandCwd,
		flagPermissionProfile, string(r.PermissionProfile),
		flagEnv, env,
		flagLevel, string(r.Level),
	}
	roots := r.WorkspaceRoots
	if len(roots) == 0 {
		roots = []string{r.CommandCwd}
	}
	for _, root := range roots {
		args = append(args, flagWorkspaceRoot, root)
	}
	for _, part := range []struct {
		flag     string
		given    bool
		list     []string // for flags with a value
		absolute bool
	}{
		{flag: flagPrivateDesktop, given: r.PrivateDesktop},
		{flag: flagProxyEnforced, given: r.ProxyEnforced},
		{flag: flagPreserveProxy, given: r.ProxySettings == Preserve},
		{flag: flagReadRoots, given: r.ReadRoots != nil, list: r.ReadRoots},
		{flag: flagPlatformDefaults, given: r.PlatformDefaults},
		{flag: flagWriteRoots, given: r.WriteRoots != nil, list: r.WriteRoots},
		{flag: flagDenyRead, given: len(r.DenyReadPaths) > 0, list: r.DenyReadPaths, absolute: true},
		{flag: flagDenyWrite, given: len(r.DenyWritePaths) > 0, list: r.DenyWritePaths, absolute: true},
	} {
		if !part.given {
			continue
		}
		args = append(args, part.flag)
		if part.list == nil {
			continue
		}
		value, err := encodeList(part.flag, part.list, part.absolute)
		if err != nil {
			return nil, err
		}
		args = append(args, value)
	}
	return append(append(args, separator), r.Command...), nil
}

func encodeEnv(env map[string]string) (string, error) {
	for name, value := range env {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return "", fmt.Errorf("environment variable %q is not valid UTF-8", name)
		}
	}
	if env == nil {
		env = map[string]string{}
	}
	return encode(env)
}

func encodeList(flag string, list []string, absolute bool) (string, error) {
	for _, s := range list {
		if !utf8.ValidString(s) {
			return "", fmt.Errorf("%s: %q is not valid UTF-8", flag, s)
		}
		if absolute {
			if err := mustBeAbsolute(flag, s); err != nil {
				return "", err
			}
		}
	}
	return encode(list)
}

// encode returns JSON without the escapes for web pages.
func encode(value any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return "", err
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

func missing(flag string) error { return fmt.Errorf("missing required %s", flag) }

func mustBeAbsolute(flag, path string) error {
	if isAbsolute(path) {
		return nil
	}
	return fmt.Errorf("%s must be absolute: %s", flag, path)
}
