//go:build linux

package runner

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/testutil"
)

// probeEnv is the answer of this program when it acts as a launcher that is
// probed: one of the variables that a launcher gets.
const probeEnv = "TEMP"

// TestMain lets this program act as the launcher of its own tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && strings.HasPrefix(os.Args[3], "--probe") {
		fmt.Println(os.Getenv(probeEnv))
		os.Exit(0)
	}
	if path := os.Getenv(listenEnv); path != "" {
		os.Exit(listen(path))
	}
	if os.Getenv(waitEnv) != "" {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// program makes an executable file.
func program(t *testing.T, dir, name, text string) string {
	t.Helper()
	at := filepath.Join(dir, name)
	if err := testutil.WriteProgram(at, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return at
}

// readOnly lets everything be read.
var readOnly = permissions.Profile{Kind: permissions.Managed, FileSystem: permissions.FileSystem{
	Entries: []permissions.Entry{{Path: permissions.Path{Kind: permissions.Root}, Access: permissions.Read}},
}}

// newRuntime returns a runtime whose programs do nothing.
func newRuntime(t *testing.T, backend string) *Runtime {
	t.Helper()
	dir := t.TempDir()
	r, err := NewRuntime(Options{
		Launcher: program(t, dir, "l", "#!/bin/sh\n"), Helper: program(t, dir, "h", "#!/bin/sh\n"), Backend: backend,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func content(t *testing.T, f *os.File) string {
	t.Helper()
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const rootRead = `{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}]},"network":"restricted"}`

func TestArgumentsOfTheLauncher(t *testing.T) {
	r := newRuntime(t, "namespaces")
	arg0 := "-sh"
	for _, tt := range []struct {
		name string
		in   Confinement
		arg0 *string
		want []string
	}{
		{"plain", Confinement{}, nil, []string{"--permission-profile", rootRead, "--env-fd", "4", "--refusal-fd", "5", "--", "sh", "-c", "true"}},
		{"arg0", Confinement{}, &arg0, []string{"--permission-profile", rootRead, "--env-fd", "4", "--refusal-fd", "5", "--argv0=-sh", "--", "sh", "-c", "true"}},
		{"legacy", Confinement{LegacyLandlock: true}, nil, []string{"--permission-profile", rootRead, "--use-legacy-landlock", "--env-fd", "4", "--refusal-fd", "5", "--", "sh", "-c", "true"}},
		{"proxy", Confinement{ManagedNetwork: true, LegacyLandlock: true}, nil, []string{"--permission-profile", rootRead, "--allow-network-for-proxy", "--env-fd", "4", "--refusal-fd", "5", "--", "sh", "-c", "true"}},
	} {
		tt.in.Profile, tt.in.PolicyCwd, tt.in.CommandCwd = readOnly, "/p", "/c"
		c, err := r.Process(tt.in, []string{"sh", "-c", "true"}, tt.arg0, []string{"A=1", "B=", "C=x=y"})
		if err != nil {
			t.Fatal(err)
		}
		want := append([]string{"--self-fd", "3", "--sandbox-policy-cwd", "/p", "--command-cwd", "/c", "--backend", "namespaces"}, tt.want...)
		if got := c.Argv[1:]; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", tt.name, got, want)
		}
		if c.Arg0 != launcherName || c.Argv[0] != "/proc/self/fd/3" {
			t.Errorf(`%s: got c.Arg0 %s, c.Argv[0] %s; want c.Arg0 %s, c.Argv[0] "/proc/self/fd/3"`, tt.name, c.Arg0, c.Argv[0], launcherName)
		}
		if len(c.Files) != 3 || content(t, c.Files[1]) != "A=1\x00B=\x00C=x=y\x00" {
			t.Errorf("%s: environment %q", tt.name, content(t, c.Files[1]))
		}
		c.Close()
	}
}

// TestPathsThatNoProfileHolds: a path that is not UTF-8 is refused, and no other path gets its permission.
func TestPathsThatNoProfileHolds(t *testing.T) {
	r := newRuntime(t, "namespaces")
	profile := readOnly
	profile.FileSystem.Entries = append(slices.Clone(profile.FileSystem.Entries),
		permissions.Entry{Path: permissions.Path{Kind: permissions.Literal, Text: "/w/\xff"}, Access: permissions.Write})
	in := Confinement{Profile: profile, PolicyCwd: "/p", CommandCwd: "/c"}
	_, err := r.Process(in, []string{"true"}, nil, nil)
	_, err2 := r.FileHelper(in)
	for _, err := range []error{err, err2} {
		if err == nil || !strings.Contains(err.Error(), `"/w/\xff" is not UTF-8`) {
			t.Errorf("got error %v, want one that names the path", err)
		}
	}
}

func TestArgumentsOfTheHelper(t *testing.T) {
	r := newRuntime(t, "bwrap")
	profile := readOnly
	profile.Network = permissions.NetworkEnabled
	c, err := r.FileHelper(Confinement{Profile: profile, PolicyCwd: "/p", CommandCwd: "/", ManagedNetwork: true, LegacyLandlock: true, Reading: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := []string{
		"--self-fd", "3", "--sandbox-policy-cwd", "/p", "--command-cwd", "/", "--backend", "bwrap", "--permission-profile", rootRead,
		"--reading", "--use-legacy-landlock", "--trusted-helper", "--exec-fd", "4", "--", "codex-fs",
	}
	if got := c.Argv[1:]; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if len(c.Files) != 2 || content(t, c.Files[1]) != "#!/bin/sh\n" {
		t.Errorf("got %v; want len(c.Files) 2, content(t, c.Files[1]) %q", c.Files, "#!/bin/sh\n")
	}
}

func TestALongProfileGoesThroughMemory(t *testing.T) {
	r := newRuntime(t, "namespaces")
	for _, size := range []int{maxArgument, maxArgument + 1} {
		in := Confinement{Profile: readOnly, PolicyCwd: "/", CommandCwd: "/"}
		add := func(name string) {
			in.Profile.FileSystem.Entries = append(in.Profile.FileSystem.Entries, permissions.Entry{Path: permissions.Path{Text: name}, Access: permissions.Read})
		}
		add("/x")
		in.Profile.FileSystem.Entries[1].Path.Text += strings.Repeat("x", size-len(in.Profile.AppendJSON(nil)))
		text := string(in.Profile.AppendJSON(nil))
		c, err := r.Process(in, []string{"true"}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if size <= maxArgument {
			if !slices.Contains(c.Argv, text) || len(c.Files) != 3 {
				t.Errorf("%d bytes are no argument", size)
			}
		} else {
			i := slices.Index(c.Argv, "--permission-profile-fd")
			if i < 0 || c.Argv[i+1] != "4" || content(t, c.Files[1]) != text || !slices.Contains(c.Argv, "5") {
				t.Errorf("%d bytes: %.200q", size, c.Argv)
			}
		}
		c.Close()
	}
}

func TestWhereProgramsAreFound(t *testing.T) {
	dir := t.TempDir()
	self := program(t, dir, "self", "self")
	found := func(path string, itself bool) string {
		t.Helper()
		f, err := openProgram(path, self, launcherName, itself)
		if err != nil {
			return err.Error()
		}
		defer f.Close()
		return f.Name()
	}
	beside := filepath.Join(dir, launcherName)
	if got := found("", false); got != "open "+beside+": no such file or directory" {
		t.Errorf("got %v, want %v", got, "open "+beside+": no such file or directory")
	}
	if got := found("", true); got != "/proc/self/exe" {
		t.Errorf(`got %v, want "/proc/self/exe"`, got)
	}
	program(t, dir, launcherName, "beside")
	for _, itself := range []bool{false, true} {
		if got := found("", itself); got != beside {
			t.Errorf("got %v, want %v", got, beside)
		}
	}
	other := program(t, t.TempDir(), "other", "other")
	if got := found(other, true); got != other {
		t.Errorf("got %v, want %v", got, other)
	}
	if _, err := NewRuntime(Options{Launcher: filepath.Join(dir, "none"), Helper: other}); err == nil || !strings.Contains(err.Error(), "missing codex-linux-sandbox executable path") {
		t.Error(err)
	}
	if _, err := NewRuntime(Options{Launcher: other, Helper: filepath.Join(dir, "none")}); err == nil || !strings.Contains(err.Error(), "missing codex-fs executable path") {
		t.Error(err)
	}
}

// The programs that were found are started, whatever happens to their paths.
func TestProgramsAreHeldOpen(t *testing.T) {
	t.Setenv(probeEnv, `{"backends":[{"name":"namespaces","works":false,"reason":"no"},{"name":"bwrap","works":true}],"more":1}`)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	launcher := program(t, dir, "l", string(self))
	r, err := NewRuntime(Options{Launcher: launcher, Helper: launcher})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := os.Rename(launcher, launcher+".old"); err != nil {
		t.Fatal(err)
	}
	program(t, dir, "l", "nothing")
	if got := r.Status(); got.Backend != "auto" || !strings.HasPrefix(got.Reason, "namespaces does not work here (no)") {
		t.Errorf(`got %+v; want Backend "auto", Reason beginning with "namespaces does not work here (no)"`, got)
	}
}

func TestTheChoiceOfABackend(t *testing.T) {
	for _, tt := range []struct {
		probe, backend, want, reason string
		complete, writes, redirects  bool
	}{
		{`{"backends":[{"name":"namespaces","works":true},{"name":"bwrap","works":true}]}`, "", "namespaces", "it works here", true, true, false},
		{`{"backends":[{"name":"namespaces","works":false,"reason":"no"},{"name":"landlock","works":false,"reason":"old"}]}`, "", "auto", "requests that need a sandbox will be refused", false, false, false},
		{`{"backends":[{"name":"namespaces","works":true,"redirects":true}]}`, "", "namespaces", "it works here", true, true, true},
		{`{"backends":[{"name":"namespaces","works":false},{"name":"bwrap","works":true,"redirects":true}]}`, "", "auto", "namespaces does not work here", true, true, true},
		{`{"backends":[{"name":"namespaces","works":true,"redirects":true},{"name":"bwrap","works":true}]}`, "bwrap", "bwrap", "it was asked for", true, true, false},
		{`{"backends":[{"name":"bwrap","works":true,"redirects":true}]}`, "bwrap", "bwrap", "it was asked for", true, true, true},
		{`{"backends":`, "auto", "auto", "probe the sandbox", false, false, false},
		{`{}`, "landlock", "landlock", "it was asked for", false, false, false},
		{`{"backends":[{"name":"namespaces","works":false},{"name":"bwrap","works":true}]}`, "", "auto", "namespaces does not work here", true, true, false},
		{`{"backends":[{"name":"namespaces","works":false},{"name":"bwrap","works":false},{"name":"landlock","works":true}]}`, "", "auto", "bwrap does not work here", false, false, false},
		{`{"backends":[{"name":"namespaces","works":false},{"name":"bwrap","works":false},{"name":"broker","works":true}]}`, "", "auto", "bwrap does not work here", false, true, false},
		{`{"backends":[{"name":"broker","works":true}]}`, "broker", "broker", "it was asked for", false, true, false},
		{`{"backends":[{"name":"broker","works":false,"reason":"old"}]}`, "broker", "broker", "does not work here (old)", false, false, false},
		{`{"backends":[{"name":"namespaces","works":false},{"name":"bwrap","works":true}]}`, "bwrap", "bwrap", "it was asked for", true, true, false},
		{`{"backends":[{"name":"namespaces","works":false},{"name":"bwrap","works":true}]}`, "namespaces", "namespaces", "it was asked for", false, false, false},
	} {
		t.Setenv(probeEnv, tt.probe)
		const launcher = "/proc/self/exe"
		r, err := NewRuntime(Options{Launcher: launcher, Helper: launcher, Backend: tt.backend})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Status(); got.Backend != tt.want || !strings.Contains(got.Reason, tt.reason) || got.Complete != tt.complete || got.Writes != tt.writes || got.Redirects != tt.redirects {
			t.Errorf("%s: got %+v; want Backend %v, Reason with %q, Complete %v, Writes %v, Redirects %v", tt.probe, got, tt.want, tt.reason, tt.complete, tt.writes, tt.redirects)
		}
		r.Close()
	}
}

// TestJanitorOfTheServer: commands and requests that may write get a connection to the
// server's janitor, if there is one.
func TestJanitorOfTheServer(t *testing.T) {
	r := newRuntime(t, "namespaces")
	writable := permissions.Profile{Kind: permissions.Managed}
	writable.FileSystem.Entries = []permissions.Entry{{Path: permissions.Path{Kind: permissions.Root}, Access: permissions.Read},
		{Path: permissions.Path{Kind: permissions.SlashTmp}, Access: permissions.Write}}
	for _, tt := range []struct {
		name       string
		in         Confinement
		none, want bool
	}{
		{"read-only", Confinement{Profile: readOnly}, false, false},
		{"writable", Confinement{Profile: writable}, false, true},
		{"a reading helper", Confinement{Profile: writable, Reading: true}, false, false},
		{"without a janitor", Confinement{Profile: writable}, true, false},
	} {
		var connection *os.File
		r.opts.Janitor = func() *os.File {
			if tt.none {
				return nil
			}
			var err error
			if connection, err = os.Open(os.DevNull); err != nil {
				t.Fatal(err)
			}
			return connection
		}
		tt.in.PolicyCwd, tt.in.CommandCwd = "/", "/"
		c, err := r.FileHelper(tt.in)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.Index(c.Argv, "--janitor-fd")
		if (i > 0) != tt.want || i > 0 && (c.Argv[i+1] != "4" || c.Files[1] != connection) {
			t.Errorf(`%s: got %q; want i > 0: %v, c.Argv[i+1] "4", c.Files[1] %v`, tt.name, c.Argv, tt.want, connection)
		}
		c.Close()
		if connection != nil && connection.Close() == nil {
			t.Errorf("%s: the connection stays open", tt.name)
		}
	}
}

// TestReadRefusal: a launcher's message is read, and made printable.
func TestReadRefusal(t *testing.T) {
	r := newRuntime(t, "namespaces")
	for _, tt := range []struct{ written, want string }{
		{"", ""}, {"no backend", "no backend"}, {"a\xffb", "a\uFFFDb"},
	} {
		c, err := r.Process(Confinement{Profile: readOnly, PolicyCwd: "/", CommandCwd: "/"}, []string{"/bin/true"}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Refusal.WriteAt([]byte(tt.written), 0); err != nil {
			t.Fatal(err)
		}
		if got := ReadRefusal(c.Refusal); got != tt.want {
			t.Errorf("of %q: got %q, want %q", tt.written, got, tt.want)
		}
		_ = c.Refusal.Close()
		c.Close()
	}
}

// TestNeedsLibraries distinguishes programs that load libraries from those that do not, and
// from files that are not programs.
func TestNeedsLibraries(t *testing.T) {
	file := func(segments int, types ...elf.ProgType) string {
		header := elf.Header64{Version: uint32(elf.EV_CURRENT), Phoff: uint64(binary.Size(elf.Header64{})), Phentsize: uint16(binary.Size(elf.Prog64{})), Phnum: uint16(segments)}
		copy(header.Ident[:], elf.ELFMAG)
		header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
		var b bytes.Buffer
		if err := binary.Write(&b, binary.LittleEndian, header); err != nil {
			t.Fatal(err)
		}
		for _, kind := range types {
			if err := binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(kind)}); err != nil {
				t.Fatal(err)
			}
		}
		return b.String()
	}
	for _, c := range []struct {
		name, text string
		want       bool
	}{
		{"static", file(2, elf.PT_LOAD, elf.PT_NOTE), false},
		{"dynamic", file(3, elf.PT_LOAD, elf.PT_INTERP, elf.PT_LOAD), true},
		{"cut off", file(3, elf.PT_LOAD), false},
		{"script", "#!/bin/sh\n", false},
		{"empty", "", false},
	} {
		dir := t.TempDir()
		r, err := NewRuntime(Options{Launcher: program(t, dir, "l", "#!/bin/sh\n"), Helper: program(t, dir, "h", c.text)})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.NeedsLibraries(); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
		r.Close()
	}
}
