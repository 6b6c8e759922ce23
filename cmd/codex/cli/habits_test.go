package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// habits lists what users of ssh, scp, docker and kubectl expect of the command line, each
// with the test that checks it. Earlier versions violated all of them.
var habits = []struct{ behaviour, folder, test string }{
	{"cp writes into a device, a FIFO, a terminal and /dev/stdout, and replaces none of them", "cmd/codex/e2e/cli", "TestCopiesWriteIntoSpecialFiles"},
	{"cp keeps permissions, in both directions", "cmd/codex/e2e/cli", "TestCopiesOfTrees"},
	{"cp -r copies links as links, also those in a circle and those that lead nowhere", "cmd/codex/e2e/cli", "TestCopiesOfTrees"},
	{"cp -r reports one odd entry and goes on with the rest", "cmd/codex/e2e/cli", "TestCopiesGoOn"},
	{"copies and listings do not wait for an answer per file", "cmd/codex/e2e/cli", "TestRoundTrips"},
	{"completion offers values and files, and nothing wrong", "cmd/codex/e2e/cli", "TestCompletionInShells"},
	{"--env sets a variable where that can be meant, and is an error where it would have no effect", "cmd/codex/e2e/cli", "TestEnvironmentVariablesAndIDs"},
	{"the log of a server behind a program is not between the output", "cmd/codex/e2e/cli", "TestServerLogIsNotInTheOutput"},
	{"a command ends when nobody reads its output any more", "cmd/codex/e2e/cli", "TestReaderOfOutputEnds"},
	{"--tty without a terminal ends with its input, and shell without one says so", "cmd/codex/e2e/cli", "TestTerminalWithoutALocalOne"},
	{"a server at 0.0.0.0 listens on IPv4 alone", "cmd/codex/e2e/cli", "TestListensOnOneFamily"},
	{"a client that is interrupted dies by the signal, so that a loop in a shell ends", "cmd/codex/e2e/cli", "TestInterruptedClientEndsByTheSignal"},
	{"a working directory that cannot be entered is blamed, and not the program", "cmd/codex/e2e/cli", "TestCommandsThatCannotStart"},
	{"so is that of a program that leads to a server", "pkg/execclient", "TestGreetingsThatFail"},
	{"what start-up files print before the server begins does no harm", "cmd/codex/e2e/cli", "TestSSHEnvironment"},
	{"errors of a start match exec.ErrNotFound, fs.ErrNotExist and fs.ErrPermission", "pkg/execclient", "TestStartErrors"},
	{"the handler of a server can be mounted at any path", "pkg/execserver", "TestServerAtAPathOfAMux"},
	{"the tests pass under nice", "cmd/codex-linux-sandbox/escape", "TestAttacks"},
	{"SIGHUP is an orderly end of a server", "cmd/codex/e2e/cli", "TestListensOnOneFamily"},
	{"ls lists links that lead nowhere", "cmd/codex/e2e/cli", "TestListings"},
	{"options stand behind operands, and in one word: -la", "cmd/codex/cli", "TestOptionsBehindOperands"},
	{"-q leaves out notes, -v tells of the connection, and -it is taken", "cmd/codex/e2e/cli", "TestQuietAndVerbose"},
	{"what is typed wrong is told with object, reason and a way out", "cmd/codex/e2e/cli", "TestMistakes"},
}

// TestHabitsAreHeld checks that each test of the list exists.
func TestHabitsAreHeld(t *testing.T) {
	for _, h := range habits {
		files, err := filepath.Glob(filepath.Join(repository, h.folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found, name := false, regexp.MustCompile(`(?m)^func `+h.test+`\(`)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || name.Match(text)
		}
		if !found {
			t.Errorf("%s: %s has no %s", h.behaviour, h.folder, h.test)
		}
	}
}
