// Package envpolicy computes the environment of a process
// (docs/spec/wire.md §4.2): the server's variables that a policy lets through,
// and the request's variables, which take precedence.
//
//	env := envpolicy.Environ(os.Environ(), policy, requested)
//
// The package is pure: it does no I/O. Names are compared without regard to case, as
// Codex CLI does it, so that a policy written for one platform hides the same secrets
// on another; values are passed on untouched. Names that no shell could set (empty, or
// with `=` in them) are passed on too, as in Codex CLI; a NUL in a name or value is
// refused when the process is started, because only there it can do harm.
package envpolicy

import (
	"maps"
	"slices"
	"strings"
)

// The values of Policy.Inherit. With any other value nothing is inherited.
const (
	InheritAll  = "all"
	InheritCore = "core"
	InheritNone = "none"
)

// Policy selects the variables of the server that a process inherits. The
// fields are applied in their order. The zero value inherits nothing.
type Policy struct {
	// Inherit is where to start from: InheritAll of the server's variables,
	// InheritCore (those that Core returns) or InheritNone.
	Inherit string
	// IgnoreDefaultExcludes lets variables through whose names look like
	// secrets, see DefaultExcludes.
	IgnoreDefaultExcludes bool
	// Exclude drops the names that match one of its patterns (see Match).
	Exclude []string
	// Set adds variables, over the inherited ones.
	Set map[string]string
	// IncludeOnly, unless it is empty, keeps only the names that match one of
	// its patterns, of Set too.
	IncludeOnly []string
}

// Core returns the names that InheritCore lets through: the variables that a program needs
// to find its files and to use its user's language.
func Core() []string {
	return []string{
		"PATH", "SHELL", "TMPDIR", "TEMP", "TMP", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "USER",
	}
}

// DefaultExcludes returns the patterns of names that often hold secrets.
func DefaultExcludes() []string { return []string{"*KEY*", "*SECRET*", "*TOKEN*"} }

// Environ returns the environment of a process as NAME=VALUE, sorted by name:
// exactly env if p is nil, else the result of p.Apply(server) with the variables
// of env, which take precedence. Neither argument is changed, and the result
// shares no memory with env.
func Environ(server []string, p *Policy, env map[string]string) []string {
	all := env
	if p != nil {
		all = p.Apply(server)
		maps.Copy(all, env)
	}
	list := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, name+"="+all[name])
	}
	return list
}

// Apply applies the policy to an environment, given as NAME=VALUE; strings of
// another form are left out. The caller may change the result.
func (p *Policy) Apply(server []string) map[string]string {
	env := make(map[string]string, len(p.Set))
	if dropped, inherits := p.filters(); inherits != nil {
		for _, entry := range server {
			name, value, ok := strings.Cut(entry, "=")
			if !ok || name == "" {
				continue
			}
			if key := fold(name); inherits.match(key) && !dropped.match(key) {
				env[name] = value
			}
		}
	}
	maps.Copy(env, p.Set)
	if len(p.IncludeOnly) > 0 {
		kept := compile(p.IncludeOnly)
		maps.DeleteFunc(env, func(name, _ string) bool { return !kept.match(fold(name)) })
	}
	return env
}

// filters returns the patterns of the server's names that are inherited, and of
// those that are then removed. If no name is inherited, both are nil.
func (p *Policy) filters() (dropped, inherits patterns) {
	switch p.Inherit {
	case InheritAll:
		inherits = compile([]string{"*"})
	case InheritCore:
		inherits = compile(Core())
	default:
		return nil, nil
	}
	dropped = compile(p.Exclude)
	if !p.IgnoreDefaultExcludes {
		dropped = append(dropped, compile(DefaultExcludes())...)
	}
	return dropped, inherits
}
