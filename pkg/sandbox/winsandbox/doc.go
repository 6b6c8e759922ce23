// Package winsandbox has the rules of the Windows sandbox that need no
// Windows: how its wrapper is called, what its set-up was made for, and when
// that must be made again (docs/spec/sandbox.md §9).
//
// A Windows host keeps firewall rules for the users that sandboxed commands run
// as; a marker file says which. They are changed by a set-up that asks for
// elevation. An ordinary launch reconciles them with the proxy variables of its
// environment. A helper that uses no network has a minimal environment, and
// preserves the rules: otherwise it would find no proxy variables, and ask for
// elevation to remove the rules.
//
//	plan := winsandbox.PlanLaunch(launch, marker, usersReady)
//	for _, step := range plan.Steps {
//		err := run(step) // elevated if step.Elevated
//	}
//
// Everything is a pure function of its arguments and safe for concurrent use. A
// permission profile is opaque here: JSON that is passed on unchanged.
package winsandbox
