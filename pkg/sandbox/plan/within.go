package plan

import (
	"fmt"

	"codex.internal/pkg/sandbox/permissions"
)

// OutsideError means that an entry of a profile makes a path writable or readable that
// is outside of Scope.Within.
type OutsideError struct {
	Path   string // as the entry spells it
	Real   string // where it leads
	Within string
}

func (e *OutsideError) Error() string {
	if e.Real == e.Path {
		return fmt.Sprintf("cannot enforce sandbox path %s: it lies outside of %s, to which this client is confined", e.Path, e.Within)
	}
	return fmt.Sprintf("cannot enforce sandbox path %s: it leads to %s, outside of %s, to which this client is confined", e.Path, e.Real, e.Within)
}

// checkWithin refuses a policy that grants more than the scope's Within. It follows links on
// the snapshot of which the plan is made, so a link that a command puts somewhere after the
// check is not followed by the plan either (docs/spec/wire.md §1.7).
//
// Within itself must contain no links. Scenario: a token is for a directory in /tmp, or in
// the directory of another token. A command there replaces the directory by a link, and the
// next request would be confined to the link's target.
func (p *planner) checkWithin(policy *permissions.Policy, scope permissions.Scope) error {
	if scope.Within == "" {
		return nil
	}
	within, _, err := p.effective(scope.Within)
	if err != nil {
		return err
	}
	if within != scope.Within {
		return &OutsideError{Path: scope.Within, Real: within, Within: scope.Within}
	}
	var paths []string
	for _, w := range policy.WritableRoots() {
		paths = append(paths, w.Path)
	}
	temporary, _, err := p.effective("/tmp")
	if err != nil {
		return err
	}
	if scope.WithinReads {
		if temporary = within; policy.FullRead() {
			paths = append(paths, "/")
		}
		paths = append(append(paths, policy.ReadablePaths()...), policy.PlatformRoots()...)
	}
	for _, name := range paths {
		real, _, err := p.effective(name)
		if err != nil {
			return err
		}
		if !permissions.Within(real, within) && !permissions.Within(real, temporary) {
			return &OutsideError{Path: name, Real: real, Within: scope.Within}
		}
	}
	return nil
}
