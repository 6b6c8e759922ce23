package winsandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// ParseArgs reads the wrapper's arguments, with or without Selector in front.
// Before `--` the flags may come in any order. The value of a flag is the next
// argument, even if that looks like a flag. If a flag is repeated, the last
// value counts, except that workspace roots add up.
func ParseArgs(args []string) (*Request, error) {
	if len(args) > 0 && args[0] == Selector {
		args = args[1:]
	}
	p := parser{rest: args, seen: make(map[string]bool)}
	if err := p.flags(); err != nil {
		return nil, err
	}
	return p.finish()
}

// parser reads one list of arguments.
type parser struct {
	rest      []string
	r         Request
	seen      map[string]bool // flags with a value
	separated bool
}

// flags reads up to the separator; the command follows it.
func (p *parser) flags() error {
	for len(p.rest) > 0 {
		flag := p.rest[0]
		p.rest = p.rest[1:]
		if flag == separator {
			p.separated, p.r.Command = true, p.rest
			return nil
		}
		if p.bare(flag) {
			continue
		}
		set := p.setter(flag)
		if set == nil {
			return fmt.Errorf("unexpected windows sandbox wrapper argument: %s", flag)
		}
		if len(p.rest) == 0 {
			return fmt.Errorf("missing value for %s", flag)
		}
		value := p.rest[0]
		p.rest = p.rest[1:]
		if err := set(value); err != nil {
			return err
		}
		p.seen[flag] = true
	}
	return nil
}

// bare handles a flag without a value.
func (p *parser) bare(flag string) bool {
	switch flag {
	case flagPrivateDesktop:
		p.r.PrivateDesktop = true
	case flagProxyEnforced:
		p.r.ProxyEnforced = true
	case flagPreserveProxy:
		p.r.ProxySettings = Preserve
	case flagPlatformDefaults:
		p.r.PlatformDefaults = true
	default:
		return false
	}
	return true
}

// setter returns the function that handles a flag's value, nil for an unknown flag.
func (p *parser) setter(flag string) func(value string) error {
	r := &p.r
	list := func(to *[]string, absolute bool) func(string) error {
		return func(value string) (err error) {
			*to, err = parseList(flag, value, absolute)
			return err
		}
	}
	switch flag {
	case flagCodexHome:
		// Whether the path is absolute is checked at the end.
		return func(value string) error { r.CodexHome = value; return nil }
	case flagCommandCwd:
		return func(value string) error { r.CommandCwd = value; return mustBeAbsolute(flag, value) }
	case flagWorkspaceRoot:
		return func(value string) error {
			r.WorkspaceRoots = append(r.WorkspaceRoots, value)
			return mustBeAbsolute(flag, value)
		}
	case flagPermissionProfile:
		return func(value string) error {
			r.PermissionProfile = json.RawMessage(value)
			return checkProfile(value)
		}
	case flagEnv:
		return func(value string) (err error) { r.Env, err = parseEnv(value); return err }
	case flagLevel:
		return func(value string) error { r.Level = Level(value); return r.Level.check() }
	case flagReadRoots:
		return list(&r.ReadRoots, false)
	case flagWriteRoots:
		return list(&r.WriteRoots, false)
	case flagDenyRead:
		return list(&r.DenyReadPaths, true)
	case flagDenyWrite:
		return list(&r.DenyWritePaths, true)
	default:
		return nil
	}
}

// finish checks that everything is present, in the order of Codex CLI's
// complaints.
func (p *parser) finish() (*Request, error) {
	for _, flag := range []string{flagCodexHome, flagCommandCwd, flagEnv, flagPermissionProfile, flagLevel} {
		if !p.seen[flag] {
			return nil, missing(flag)
		}
		if flag == flagCodexHome {
			if err := mustBeAbsolute(flag, p.r.CodexHome); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case !p.separated:
		return nil, errors.New("missing sandboxed command separator --")
	case len(p.r.Command) == 0:
		return nil, errNoCommand
	}
	if len(p.r.WorkspaceRoots) == 0 {
		p.r.WorkspaceRoots = []string{p.r.CommandCwd}
	}
	return &p.r, nil
}

var (
	errUTF8      = errors.New("it is not valid UTF-8")
	errNotObject = errors.New("it is not an object of strings")
	errNotList   = errors.New("it is not a list of strings")
)

func checkProfile(text string) error {
	var profile json.RawMessage
	if err := decode(text, &profile); err != nil {
		return fmt.Errorf("failed to parse permission profile: %w", err)
	}
	return nil
}

func parseEnv(text string) (map[string]string, error) {
	const failed = "failed to parse env json: %w"
	var values map[string]*string // null is not a string
	if err := decode(text, &values); err != nil {
		return nil, fmt.Errorf(failed, err)
	}
	if values == nil {
		return nil, fmt.Errorf(failed, errNotObject)
	}
	env := make(map[string]string, len(values))
	for name, value := range values {
		if value == nil {
			return nil, fmt.Errorf(failed, errNotObject)
		}
		env[name] = *value
	}
	return env, nil
}

func parseList(flag, text string, absolute bool) ([]string, error) {
	const failed = "failed to parse %s: %w"
	var values []*string
	if err := decode(text, &values); err != nil {
		return nil, fmt.Errorf(failed, flag, err)
	}
	if values == nil {
		return nil, fmt.Errorf(failed, flag, errNotList)
	}
	list := make([]string, 0, len(values))
	for _, value := range values {
		if value == nil {
			return nil, fmt.Errorf(failed, flag, errNotList)
		}
		if absolute && !isAbsolute(*value) {
			return nil, fmt.Errorf(failed, flag, fmt.Errorf("path is not absolute: %s", *value))
		}
		list = append(list, *value)
	}
	return list, nil
}

// decode also refuses invalid UTF-8, which the library would replace.
func decode(text string, to any) error {
	if !utf8.ValidString(text) {
		return errUTF8
	}
	return json.Unmarshal([]byte(text), to)
}
