// Package envpolicy computes the environment of a process (docs/spec/wire.md §4.2) from two
// sources: the server's variables that a policy selects, and the request's variables, which take
// precedence.
//
//	env := envpolicy.Environ(os.Environ(), policy, requested)
//
// The package does no I/O. It ignores the case of names, as Codex CLI does, so that a policy
// written for one platform hides the same secrets on another. Values are not changed. Names that no
// shell could set, because they are empty or contain `=`, are accepted, as in Codex CLI. A NUL in a
// name or value is refused when the process is started, because it does harm only there.
package envpolicy

import (
	"maps"
	"slices"
	"strings"
)

// These are the values of Policy.Inherit. With any other value no variable is inherited.
const (
	InheritAll  = "all"
	InheritCore = "core"
	InheritNone = "none"
)

// Policy selects the variables of the server that a process inherits. The fields are applied in the
// order of this declaration. The zero value inherits nothing.
type Policy struct {
	// Inherit is the initial set: InheritAll for all variables of the server, InheritCore for those
	// that Core returns, or InheritNone.
	Inherit string
	// IgnoreDefaultExcludes keeps variables whose names suggest secrets: see DefaultExcludes.
	IgnoreDefaultExcludes bool
	// Exclude removes the names that match one of its patterns (see Match).
	Exclude []string
	// Set adds variables. They replace inherited ones.
	Set map[string]string
	// IncludeOnly, unless it is empty, removes all names that match none of its patterns, including
	// names of Set.
	IncludeOnly []string
}

// Core returns the names of the variables that InheritCore selects: a program needs them to find
// its files and to use the language of its user.
func Core() []string {
	return []string{
		"PATH", "SHELL", "TMPDIR", "TEMP", "TMP", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "USER",
	}
}

// DefaultExcludes returns the patterns of names that often hold secrets.
func DefaultExcludes() []string { return []string{"*KEY*", "*SECRET*", "*TOKEN*"} }

// Environ returns the environment of a process as NAME=VALUE, sorted by name. If p is nil, it is
// exactly env. Otherwise it is the result of p.Apply(server) with the variables of env, which take
// precedence. Neither argument is changed, and the result shares no memory with env.
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

// Apply applies the policy to an environment of NAME=VALUE strings; it omits strings of any other
// form. The caller may change the result.
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

// filters returns two lists of patterns for the server's names: dropped removes names from those
// that inherits selects. If no name is inherited, both are nil.
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
