package initproc

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/testutil"
)

const own = "codex.internal/cmd/codex-linux-sandbox/initproc."

// mayBeCalled are prefixes of the functions that a child may call; README.md has the rules.
var mayBeCalled = []string{own, "syscall.RawSyscall"}

// leaves are functions that a child may call because they call no others: the system call itself,
// which is in assembly, and memclrNoHeapPointers, which the compiler uses for a loop that clears
// bytes. The panics are for indexes out of range, which do not occur in a child.
var leaves = []string{
	"internal/runtime/syscall", "runtime.memclrNoHeapPointers", "runtime.panicIndex", "runtime.panicSlice", "runtime.panicBounds",
}

func beginsWith(beginnings []string, name string) bool {
	return slices.ContainsFunc(beginnings, func(begin string) bool { return strings.HasPrefix(name, begin) })
}

// TestChildrenCallOnlyTheKernel follows all calls from fork in the compiled packages, for the processor architecture of this
// machine. In .ci/run it does so for each architecture, for which half of Go's library is compiled.
func TestChildrenCallOnlyTheKernel(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command, to disassemble")
	}
	for _, processor := range []string{"amd64", "arm64"} {
		if processor == runtime.GOARCH || testutil.Rounds(0, 0, 1) == 1 {
			t.Run(processor, func(t *testing.T) { onlyTheKernel(t, processor) })
		}
	}
}

func onlyTheKernel(t *testing.T, processor string) {
	t.Helper()
	calls := make(map[string][]string)
	for name, archive := range compiled(t, processor) {
		switch {
		case name == "syscall":
			addCalls(t, calls, "-s", `^syscall\.RawSyscall`, archive)
		case name == strings.TrimSuffix(own, "."):
			addCalls(t, calls, archive)
		}
	}
	seen := make(map[string]bool)
	for next := []string{own + "(*Processes).fork"}; len(next) > 0; next = next[1:] {
		name := next[0]
		if seen[name] {
			continue
		}
		seen[name] = true
		if _, known := calls[name]; !known {
			t.Errorf("there is no function %s", name)
		}
		for _, to := range calls[name] {
			switch {
			case beginsWith(mayBeCalled, to):
				next = append(next, to)
			case !beginsWith(leaves, to):
				t.Errorf("%s calls %s, which must not run in a child", name, to)
			}
		}
	}
	for _, name := range []string{own + "(*Program).run", own + "(*Processes).wait", own + "(*Processes).fail", own + "(*Exec).Run", "syscall.RawSyscall6"} {
		if !seen[name] {
			t.Errorf("no call of %s was found: the test does not look at what it should", name)
		}
	}
}

// compiled returns the archives of this package and of its imports. They are compiled like this test but
// without the race detector, because RawSyscall would call it, too.
func compiled(t *testing.T, processor string) map[string]string {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-trimpath" || s.Key == "-tags" {
				args = append(args, s.Key+"="+s.Value)
			}
		}
	}
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Env = append(os.Environ(), "GOARCH="+processor, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	found := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		if name, archive, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			found[name] = archive
		}
	}
	return found
}

var (
	function = regexp.MustCompile(`^TEXT ([^\s]+?)\(SB\)`)
	// callOf is a call, or a jump, to a function that the linker finds.
	callOf = regexp.MustCompile(`R_CALL(?:ARM64)?:([^\s<]+)`)
	// unknown is a call through a register or a variable.
	unknown = regexp.MustCompile(`\t(CALL|BL) [^0-9]`)
)

// addCalls records the calls of an archive's functions, from the output of go tool objdump.
func addCalls(t *testing.T, calls map[string][]string, args ...string) {
	t.Helper()
	out, err := exec.Command("go", append([]string{"tool", "objdump"}, args...)...).Output()
	if err != nil {
		t.Fatalf("disassemble: %v", err)
	}
	at := ""
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		line := lines.Text()
		if m := function.FindStringSubmatch(line); m != nil {
			at = m[1]
			calls[at] = append(calls[at], []string{}...)
		}
		switch m := callOf.FindStringSubmatch(line); {
		case m != nil && m[1] != at:
			calls[at] = append(calls[at], m[1])
		case m == nil && unknown.MatchString(line):
			calls[at] = append(calls[at], "what a register says")
		}
	}
}
