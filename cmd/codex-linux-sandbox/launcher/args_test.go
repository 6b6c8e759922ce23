package launcher

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"codex.internal/pkg/sandbox/plan"
	"codex.internal/pkg/sandbox/proxybridge"
	"codex.internal/pkg/testutil/machine"
	"golang.org/x/sys/unix"
)

// TestMain lets this program act as the launcher of its own tests.
func TestMain(m *testing.M) {
	// The second stage and janitors get no environment variables, so this program recognizes them by their arguments.
	if os.Getenv("LAUNCHER_TEST_MAIN") != "" || len(os.Args) > 1 && (os.Args[1] == "--second-stage" || os.Args[1] == "--janitor-socket-fd") {
		machine.RefuseCalls(os.Getenv("LAUNCHER_TEST_REFUSED"))
		os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func launcherCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "LAUNCHER_TEST_MAIN=1")
	return cmd
}

// duplicate returns a descriptor that another owner will close.
func duplicate(t *testing.T, f *os.File) int {
	t.Helper()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 100)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

const (
	readOnly  = `{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}]},"network":"restricted"}`
	carveOut  = `{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"path","path":"/etc/passwd"},"access":"deny"}]},"network":"restricted"}`
	uriInside = `{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"path","path":"file:///w"},"access":"read"}]},"network":"restricted"}`
)

// Command lines that end before the launcher starts a process can be tested in this process.
func TestRefusals(t *testing.T) {
	for _, name := range proxybridge.Variables {
		t.Setenv(name, "")
		t.Setenv(strings.ToLower(name), "")
	}
	profile := func(text string, more ...string) []string {
		return append([]string{"--sandbox-policy-cwd", "/", "--permission-profile", text}, more...)
	}
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string // expected in stderr
	}{
		{"nothing", nil, 2, "--sandbox-policy-cwd <DIR>"},
		{"unknown flag", []string{"--nope"}, 2, "error: unexpected argument '--nope' found\n"},
		{"a flag with a value", []string{"--no-proc=1"}, 2, "unexpected value for '--no-proc'"},
		{"no value", []string{"--sandbox-policy-cwd"}, 2, "a value is required for '--sandbox-policy-cwd' but none was supplied"},
		{"no number", []string{"--env-fd", "x"}, 2, "invalid descriptor 'x' for '--env-fd'"},
		{"a negative descriptor", []string{"--exec-fd=-1"}, 2, "invalid descriptor '-1'"},
		{"unknown backend", []string{"--read-only", "--backend", "magic"}, 2, "unknown backend 'magic'"},
		{"two short forms", []string{"--read-only", "--workspace-write"}, 2, "exclude each other"},
		{"short form and profile", []string{"--read-only", "--permission-profile", "{}"}, 2, "exclude each other"},
		{"short form and profile in memory", []string{"--read-only", "--permission-profile-fd", "9"}, 2, "exclude each other"},
		{"roots of nothing", []string{"--read-only", "--writable-root", "/w"}, 2, "--writable-root needs --workspace-write"},
		{"network of a profile", []string{"--sandbox-policy-cwd", "/", "--network"}, 2, "--network needs"},
		{"no profile", []string{"--sandbox-policy-cwd", "/", "--", "true"}, 125, "codex-linux-sandbox: missing permission profile configuration\n"},
		{"no command", profile(readOnly), 125, "codex-linux-sandbox: No command specified to execute.\n"},
		{"no command after the separator", profile(readOnly, "--"), 125, "No command specified to execute."},
		{"JSON that ends", profile("{", "--", "true"), 2, "error: invalid permission profile JSON: "},
		{"JSON of nothing", profile(`{"type":"nope"}`, "--", "true"), 2, "invalid permission profile JSON: data did not match any variant of untagged enum PermissionProfileDe\n"},
		{"a URI", profile(uriInside, "--", "true"), 2, "invalid permission profile JSON: "},
		{"legacy and more than it can do", profile(carveOut, "--use-legacy-landlock", "--", "true"), 125, "codex-linux-sandbox: permission profiles requiring direct runtime enforcement are incompatible with --use-legacy-landlock\n"},
		{"no proxy", profile(readOnly, "--allow-network-for-proxy", "--", "true"), 101, "codex-linux-sandbox: failed to prepare host proxy routing bridge: managed proxy mode requires proxy environment variables\n"},
		{"a missing descriptor", []string{"--sandbox-policy-cwd", "/", "--permission-profile-fd", "999", "--", "true"}, 125, "read the profile: "},
	} {
		var out, errs bytes.Buffer
		code := Main(tt.args, &out, &errs)
		if code != tt.code || !strings.Contains(errs.String(), tt.want) || out.Len() > 0 {
			t.Errorf("%s: %d %q %q, want %d %q", tt.name, code, out.String(), errs.String(), tt.code, tt.want)
		}
	}
	t.Setenv("https_proxy", "http://proxy.example:1")
	var errs bytes.Buffer
	if code := Main(profile(readOnly, "--allow-network-for-proxy", "--", "true"), &errs, &errs); code != 101 || !strings.Contains(errs.String(), "managed proxy mode requires parseable loopback proxy endpoints\n") {
		t.Errorf("got code %d, errs %s; want code 101, errs with %q", code, errs.String(), "managed proxy mode requires parseable loopback proxy endpoints\n")
	}
}

func TestHelpAndProbe(t *testing.T) {
	var out, errs bytes.Buffer
	if code := Main([]string{"--help"}, &out, &errs); code != 0 || out.String() != usage || errs.Len() > 0 {
		t.Errorf("got code %d, errs %q; want code 0, out %v, errs.Len() at most 0", code, errs.String(), usage)
	}
	out.Reset()
	// This process has other threads, so the test probes the backends in a child.
	cmd := launcherCommand(t, "--probe")
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	var probe struct {
		Backends []struct {
			Name         string
			Works        bool
			Reason, Step string
		}
		Landlock int
	}
	if err := json.Unmarshal(out.Bytes(), &probe); err != nil || len(probe.Backends) != len(preference) || (probe.Landlock >= plan.LandlockABI) != probe.Backends[len(preference)-1].Works {
		t.Fatalf("got error %v, out %s; want no error, len(probe.Backends) %v, probe.Landlock >= plan.LandlockABI: probe.Backends[len(preference)-1].Works", err, out.String(), len(preference))
	}
	for i, b := range probe.Backends {
		if b.Name != preference[i] || b.Works != (b.Reason == "") || b.Works != (b.Step == "") || b.Works != machine.Has(t, os.Geteuid(), b.Name) {
			t.Errorf("got %+v; want b.Name preference[i], b.Works %v, b.Works %v, b.Works machine.Has(t, os.Geteuid(), b.Name)", b, b.Reason == "", b.Step == "")
		}
	}
}

func TestArguments(t *testing.T) {
	plain := func(change func(*options)) *options {
		o := &options{backend: "auto", profileFD: -1, execFD: -1, envFD: -1, selfFD: -1, refusalFD: -1, standbyFD: -1, janitorFD: -1, egressFD: -1, janitorSocketFD: -1, reachFD: -1, socketsFD: -1, reportFD: -1, cgroupFD: -1, policyCwd: "/p"}
		change(o)
		return o
	}
	for _, tt := range []struct {
		args []string
		want *options
	}{
		{[]string{"--sandbox-policy-cwd", "/p", "--", "a", "--help"}, plain(func(o *options) { o.command = []string{"a", "--help"} })},
		{[]string{"--sandbox-policy-cwd=/p", "a", "--no-proc"}, plain(func(o *options) { o.command = []string{"a", "--no-proc"} })},
		{[]string{"--sandbox-policy-cwd=/p", "--command-cwd=", "--permission-profile=--", "--", "x"}, plain(func(o *options) {
			o.profile, o.command = "--", []string{"x"}
		})},
		{[]string{"--sandbox-policy-cwd", "/p", "--argv0=", "--", "a"}, plain(func(o *options) { o.hasArg0, o.command = true, []string{"a"} })},
		{[]string{"--sandbox-policy-cwd", "/p", "--argv0", "-x=y", "--exec-fd", "7", "--env-fd=8", "--permission-profile-fd", "9"}, plain(func(o *options) {
			o.hasArg0, o.arg0, o.execFD, o.envFD, o.profileFD = true, "-x=y", 7, 8, 9
		})},
		{[]string{"--sandbox-policy-cwd", "/p", "--use-legacy-landlock", "--allow-network-for-proxy", "--no-proc", "--explain", "--allow-nesting", "--backend", "bwrap"}, plain(func(o *options) {
			o.legacyLandlock, o.proxied, o.noProc, o.explain, o.nesting, o.backend = true, true, true, true, true, "bwrap"
		})},
		{[]string{"--workspace-write", "--network", "--writable-root", "/a", "--writable-root=/b", "--", "x"}, plain(func(o *options) {
			o.policyCwd, o.writable, o.network, o.roots, o.command = "", true, true, []string{"/a", "/b"}, []string{"x"}
		})},
	} {
		got, err := parse(tt.args)
		if err != nil {
			t.Errorf("%q: got error %v, want no error", tt.args, err)
			continue
		}
		if len(got.command) == 0 {
			got.command = nil
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q:\n%+v, want\n%+v", tt.args, got, tt.want)
		}
	}
}

func TestExplain(t *testing.T) {
	var out, errs bytes.Buffer
	code := Main([]string{"--sandbox-policy-cwd", "/", "--permission-profile", carveOut, "--explain"}, &out, &errs)
	for _, want := range []string{"/  the host's, read-only\n", "/etc/passwd  masked, mode 000\n", "network: off; of its own sockets, pairs work\n", "directory: /\n"} {
		if code != 0 || !strings.Contains(out.String(), want) {
			t.Errorf("%d %q lacks %q; %s", code, out.String(), want, errs.String())
		}
	}
}

func TestShortForms(t *testing.T) {
	for args, want := range map[string]string{
		"--read-only":                               readOnly,
		"--read-only --network":                     strings.Replace(readOnly, `"restricted"}`, `"enabled"}`, 1),
		"--workspace-write":                         `"kind":"project_roots"}},"access":"write"},{"path":{"type":"special","value":{"kind":"slash_tmp"}},"access":"write"},{"path":{"type":"special","value":{"kind":"tmpdir"}},"access":"write"}]`,
		"--workspace-write --writable-root /a/../b": `{"path":{"type":"path","path":"/b"},"access":"write"}]`,
	} {
		o, err := parse(strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		p, err := shortForm(o)
		if got := string(p.AppendJSON(nil)); err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v %s, want %s", args, err, got, want)
		}
	}
}

func TestInheritedTextIsBounded(t *testing.T) {
	file := t.TempDir() + "/f"
	for size, ok := range map[int]bool{0: true, 10: true, 11: false} {
		if err := os.WriteFile(file, bytes.Repeat([]byte("x"), size), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		fd := duplicate(t, f)
		text, err := inherited("thing", fd, 10)
		if ok != (err == nil) || ok && len(text) != size {
			t.Errorf("%d bytes: %d, %v", size, len(text), err)
		}
		if !ok && err.Error() != "the thing is longer than "+strconv.Itoa(10)+" bytes" {
			t.Error(err)
		}
		_ = f.Close()
	}
}

// TestInheritedTextOfNonBlockingPipe: the text may be written to a non-blocking pipe after the
// launcher has begun to read.
func TestInheritedTextOfNonBlockingPipe(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	type result struct {
		text []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		text, err := inherited("thing", p[0], 10)
		read <- result{text, err}
	}()
	// Let the reader begin before any data arrives.
	runtime.Gosched()
	if _, err := unix.Write(p[1], []byte("text")); err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(p[1])
	if r := <-read; r.err != nil || string(r.text) != "text" {
		t.Errorf(`got r.text %q, r.err %v; want no error, r.text "text"`, r.text, r.err)
	}
}
