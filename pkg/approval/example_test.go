package approval_test

import (
	"fmt"

	"codex.internal/pkg/approval"
	"codex.internal/pkg/sandbox/permissions"
)

// A command is denied a write, and approved for the session: the second time no question is
// asked.
func Example() {
	readOnly := permissions.Profile{Kind: permissions.Managed}
	readOnly.FileSystem.Entries = []permissions.Entry{{Path: permissions.Path{Kind: permissions.Root}, Access: permissions.Read}}
	request := approval.Request{
		Environment: "remote", Argv: []string{"touch", "new"}, Cwd: "file:///srv", Sandbox: "read-only", Profile: readOnly,
	}
	execute := func(sandboxed bool) approval.Result {
		fmt.Println("run, sandboxed:", sandboxed)
		return approval.Result{ExitCode: map[bool]int{true: 1}[sandboxed], Denied: sandboxed}
	}
	session := &approval.Session{}
	for range 2 {
		run, d := approval.Begin(request, approval.Policy{Kind: approval.OnFailure}, session)
		for d.Step == approval.Ask || d.Step == approval.Start {
			if d.Step == approval.Start {
				d = run.Result(execute(d.Sandboxed))
				continue
			}
			fmt.Println(d.Question.Reason)
			d = run.Answer(approval.ForSession)
		}
		fmt.Println("exit code", d.Result.ExitCode)
	}
	// Output:
	// run, sandboxed: true
	// command failed; retry without sandbox?
	// run, sandboxed: false
	// exit code 0
	// run, sandboxed: true
	// run, sandboxed: false
	// exit code 0
}
