// Package envpolicy computes the environment of a process (section 4): what a
// policy lets through of the server's own, and the request's variables over
// it.
package envpolicy

import (
	"maps"
	"slices"
	"strings"
)

// Policy says what a process inherits.
type Policy struct {
	// Inherit is "all", "core" (Core) or "none" of the server's variables.
	Inherit string
	// IgnoreDefaultExcludes lets variables through whose names match
	// DefaultExcludes.
	IgnoreDefaultExcludes bool
	// Exclude drops what matches one of its patterns.
	Exclude []string
	// Set adds variables after that.
	Set map[string]string
	// IncludeOnly, unless empty, keeps only what matches one of its patterns,
	// of Set too.
	IncludeOnly []string
}

// Core are the variables of Inherit "core".
var Core = []string{
	"PATH", "SHELL", "TMPDIR", "TEMP", "TMP", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "USER",
}

// DefaultExcludes are names that often hold secrets.
var DefaultExcludes = []string{"*KEY*", "*SECRET*", "*TOKEN*"}

// Environ returns the environment of a process as sorted NAME=VALUE: env
// alone without a policy, else the policy's result with env over it. server
// is the environment of the server.
func Environ(server []string, p *Policy, env map[string]string) []string {
	all := env
	if p != nil {
		all = p.Apply(server)
		maps.Copy(all, env)
	}
	list := make([]string, 0, len(all))
	for name, value := range all {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

// Apply returns what the policy makes of an environment.
func (p *Policy) Apply(server []string) map[string]string {
	env := make(map[string]string)
	for _, kv := range server {
		name, value, ok := strings.Cut(kv, "=")
		switch {
		case !ok || name == "" || p.Inherit == "none":
		case p.Inherit == "core" && !slices.Contains(Core, name):
		case !p.IgnoreDefaultExcludes && matchAny(DefaultExcludes, name):
		case matchAny(p.Exclude, name):
		default:
			env[name] = value
		}
	}
	maps.Copy(env, p.Set)
	if len(p.IncludeOnly) > 0 {
		maps.DeleteFunc(env, func(name, _ string) bool { return !matchAny(p.IncludeOnly, name) })
	}
	return env
}

func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return Match(pattern, name) })
}

// Match reports whether a pattern of `*`, `?` and literal characters matches
// the whole name, without regard to case. It takes at most the product of the
// lengths in steps.
func Match(pattern, name string) bool {
	p, n := []rune(strings.ToUpper(pattern)), []rune(strings.ToUpper(name))
	pi, ni := 0, 0
	star, mark := -1, 0 // the last star, and where its match ends for now
	for ni < len(n) {
		switch {
		case pi < len(p) && p[pi] == '*':
			star, mark = pi, ni
			pi++
		case pi < len(p) && (p[pi] == '?' || p[pi] == n[ni]):
			pi++
			ni++
		case star >= 0:
			mark++
			pi, ni = star+1, mark
		default:
			return false
		}
	}
	for pi < len(p) && p[pi] == '*' {
		pi++
	}
	return pi == len(p)
}
