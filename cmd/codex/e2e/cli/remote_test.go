package cli

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"github.com/creack/pty"
)

func TestNamesDecide(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, want := range map[string]string{"codex-fs": "fs sandbox helper failed", "codex-linux-sandbox": "--permission-profile"} {
		link := filepath.Join(dir, name)
		if err := os.Symlink(harness.Codex, link); err != nil {
			t.Fatal(err)
		}
		if out, _ := exec.Command(link, "--help").CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("%s: got %s, want a text with %q", name, out, want)
		}
	}
	if _, errs, code := harness.Run(t, "", "--codex-run-as-fs-helper"); code != 1 || !strings.Contains(errs, "fs sandbox helper") {
		t.Errorf("as helper: %d %q", code, errs)
	}
}

func TestRemoteRun(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	out, errs, code := harness.Run(t, "in\n", "remote", "run", "--url", url, "--cwd", "/", "--env", "A=b c", "--env-var", "B=d,e", "--", "sh", "-c", `cat; pwd; echo "$A$B"; echo err >&2; exit 7`)
	if out != "in\n/\nb cd,e\n" || errs != "err\n" || code != 7 {
		t.Errorf("got stdout %q, stderr %q, exit code %d; want stdout %q, stderr %q, exit code 7", out, errs, code, "in\n/\nb cd,e\n", "err\n")
	}
	out, _, code = harness.Run(t, "", "remote", "run", "--url", url, "--", "head", "-c", "20000000", "/dev/zero")
	if len(out) != 20_000_000 || code != 0 {
		t.Errorf("%d bytes, %d", len(out), code)
	}
	if _, errs, code := harness.Run(t, "", "remote", "run", "--url", url, "--", "no-such-program"); code != 127 || !strings.Contains(errs, "no-such-program") {
		t.Errorf(`got stderr %q, exit code %d; want exit code 127, stderr with "no-such-program"`, errs, code)
	}
	if out, _, code := harness.Run(t, "", "remote", "info", "--url", url); code != 0 || !strings.Contains(out, "shell") {
		t.Errorf(`got stdout %q, exit code %d; want exit code 0, stdout with "shell"`, out, code)
	}
}

func TestRemoteRunOnATerminal(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	cmd := exec.Command(harness.Codex, "remote", "run", "--url", url, "--tty", "--", "sh", "-c", `stty size; trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 0.02; done`)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 31, Cols: 97})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	r := bufio.NewReader(tty)
	expect := func(want string) {
		t.Helper()
		for {
			line, err := r.ReadString('\n')
			if strings.TrimSpace(line) == want {
				return
			}
			if err != nil {
				t.Fatalf("no %q: %v", want, err)
			}
		}
	}
	timer := time.AfterFunc(harness.Patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	expect("31 97")
	expect("ready")
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
		t.Fatal(err)
	}
	expect("40 120")
	_, _ = io.Copy(io.Discard, r)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 5 {
		t.Errorf("exit code %d", code)
	}
}

func TestRemoteFiles(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	dir := t.TempDir()
	blob := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	harness.Must(t, os.MkdirAll(filepath.Join(dir, "src", "sub"), 0o755))
	harness.Must(t, os.WriteFile(filepath.Join(dir, "src", "blob"), blob, 0o644))
	harness.Must(t, os.WriteFile(filepath.Join(dir, "src", "sub", "small é"), []byte("x"), 0o644))
	if _, errs, code := harness.Run(t, "", "remote", "cp", "--url", url, "-r", filepath.Join(dir, "src"), ":"+filepath.Join(dir, "there")); code != 0 {
		t.Fatalf("there: %s", errs)
	}
	if _, errs, code := harness.Run(t, "", "remote", "cp", "--url", url, "-r", ":"+filepath.Join(dir, "there"), filepath.Join(dir, "back")); code != 0 {
		t.Fatalf("back: %s", errs)
	}
	if out, err := exec.Command("diff", "-r", filepath.Join(dir, "src"), filepath.Join(dir, "back")).CombinedOutput(); err != nil {
		t.Errorf("got %s, want no error", out)
	}
	if out, _, _ := harness.Run(t, "", "remote", "cat", "--url", url, filepath.Join(dir, "there", "blob")); out != string(blob) {
		t.Errorf("cat gave %d bytes", len(out))
	}
	if out, _, _ := harness.Run(t, "", "remote", "ls", "--url", url, filepath.Join(dir, "there")); out != "blob\nsub/\n" {
		t.Errorf("ls gave %q", out)
	}
	if out, _, _ := harness.Run(t, "", "remote", "ls", "--url", url, ":"+filepath.Join(dir, "there")); out != "blob\nsub/\n" {
		t.Errorf("ls with a colon gave %q", out)
	}
	small := filepath.Join(dir, "src", "sub", "small é")
	for _, tt := range []struct {
		args []string
		want string // expected beginning of the error
	}{
		{[]string{"cp", "--url", url, "/none/such", ":" + dir}, "copy /none/such: no such file or directory\n"},
		{[]string{"cp", "--url", url, ":/none/such", dir}, "copy :/none/such: no such file or directory\n"},
		{[]string{"cp", "--url", url, ":" + small, filepath.Join(dir, "none", "f")}, "copy :" + small + ": the target's directory " + filepath.Join(dir, "none") + ": no such file or directory\n"},
		{[]string{"cp", "--url", url, "-r", ":" + dir, filepath.Join(small, "d")}, "copy :" + dir + ": the target's directory " + small + ": not a directory\n"},
		{[]string{"cp", "--url", url, small, ":/none/such/f"}, "copy " + small + ": /none/such/f: no such file or directory\n"},
		{[]string{"ls", "--url", url, "/none/such"}, "/none/such: no such file or directory\n"},
		{[]string{"cat", "--url", url, "/none/such"}, "/none/such: no such file or directory\n"},
	} {
		if out, errs, code := harness.Run(t, "", append([]string{"remote"}, tt.args...)...); code != 1 || out != "" || !strings.HasPrefix(errs, "Error: "+tt.want) || strings.Contains(errs, "file://") {
			t.Errorf(`%q: got exit code %d, stdout %q, stderr %q; want exit code 1, stdout "", stderr beginning with %q, stderr without "file://"`, tt.args, code, out, errs, "Error: "+tt.want)
		}
	}
}

// TestTerminalWithoutALocalOne gives commands a terminal while stdin is not a terminal. The
// commands read the end of the input, even in the middle of a line.
func TestTerminalWithoutALocalOne(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	for input, want := range map[string]string{"": "end\r\n", "hi\n": "hi\r\nhi\r\nend\r\n", "hi": "hihiend\r\n"} {
		out, errs, code := harness.Run(t, input, "remote", "run", "--url", url, "--tty", "--", "sh", "-c", "cat; echo end")
		if code != 0 || strings.ReplaceAll(out, "^D\b\b", "") != want {
			t.Errorf("%q: got exit code %d, stdout %q, stderr %q; want exit code 0, strings.ReplaceAll(out, \"^D\\b\\b\", \"\") %v", input, code, out, errs, want)
		}
	}
}
