package limiter

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain makes this test program a limiter.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Arg {
		_ = Run(os.Args[2:])
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// run has a limiter execute a program, and returns its output and the errno that the limiter has written.
func run(t *testing.T, limits []Limit, program, name string, args, env []string) (string, syscall.Errno) {
	t.Helper()
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	words, environ := Command(limits, 3, program, name, args, env)
	cmd := exec.Command(os.Args[0], append([]string{Arg}, words...)...)
	var out bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.ExtraFiles = environ, &out, []*os.File{theirs}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	errno := ReadErrno(ours)
	if err := cmd.Wait(); (err == nil) != (errno == 0) {
		t.Errorf("the end of %s: got error %v, errno %d; want an error if there is an errno", program, err, errno)
	}
	return out.String(), errno
}

// TestTheProgramGetsWhatItWasGiven: a program can see only by its limits that a limiter has started
// it.
func TestTheProgramGetsWhatItWasGiven(t *testing.T) {
	sh := func(script string) []string { return []string{"/bin/sh", "-c", script, "-sh", "a", "b"} }
	for _, tt := range []struct {
		name      string
		argv, env []string
		want      string
	}{
		{"limits", sh("ulimit -n; ulimit -Hn"), nil, "77\n77\n"},
		{"the name and arguments", sh(`echo "$0 $*"`), nil, "-sh a b\n"},
		{"the environment", []string{"/usr/bin/env"}, []string{"A=1", "B= x=y"}, "A=1\nB= x=y\n"},
		{"GOMAXPROCS of its own", []string{"/usr/bin/env"}, []string{"GOMAXPROCS=7", "A=1"}, "A=1\nGOMAXPROCS=7\n"},
		{"no descriptor of the limiter", sh("[ -e /proc/$$/fd/3 ] || echo closed"), nil, "closed\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, errno := run(t, []Limit{{unix.RLIMIT_NOFILE, 77}}, tt.argv[0], "name", tt.argv[1:], tt.env)
			if got != tt.want || errno != 0 {
				t.Errorf("got %q, errno %v; want %q, none", got, errno, tt.want)
			}
		})
	}
}

// TestErrnoOfAProgramThatCannotBeExecuted: the errno is that of the failed execution.
func TestErrnoOfAProgramThatCannotBeExecuted(t *testing.T) {
	for program, want := range map[string]syscall.Errno{"/none": unix.ENOENT, "/": unix.EACCES} {
		if _, got := run(t, []Limit{{unix.RLIMIT_NOFILE, 77}}, program, "x", nil, nil); got != want {
			t.Errorf("%s: got %v, want %v", program, got, want)
		}
	}
}

// TestNoLimitIsRaised: a value above the hard limit does not change the limit.
func TestNoLimitIsRaised(t *testing.T) {
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &own); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 0, Max: 0}); err != nil {
		t.Fatal(err)
	}
	out, errno := run(t, []Limit{{unix.RLIMIT_CORE, 1 << 20}}, "/bin/sh", "sh", []string{"-c", "ulimit -c; ulimit -Hc"}, nil)
	if out != "0\n0\n" || errno != 0 {
		t.Errorf("got %q, errno %v; want the limits 0 and 0", out, errno)
	}
}

// TestRunRefusesOtherArguments: arguments that do not come from Command start nothing.
func TestRunRefusesOtherArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"7=1", "3", "", "/bin/true"}, {"7=1", "x", "", "/bin/true", "true"}, {"7=1", "2", "", "/bin/true", "true"}} {
		if err := Run(args); err != errArgs {
			t.Errorf("%q: got error %v, want %v", args, err, errArgs)
		}
	}
}
