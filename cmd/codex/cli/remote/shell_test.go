//go:build linux

package remote

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// A command cannot report a directory in place of its shell, because it cannot read the secret
// word of the report.
func TestCommandsCannotReadTheWordOfTheShell(t *testing.T) {
	const word = "0123456789abcdef"
	for _, shell := range shells {
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		const look = `set -a; cd /tmp; sh -c 'cat /proc/$PPID/cmdline /proc/$PPID/environ; env; set' | tr '\0' '\n'; (exit 7)`
		cmd := exec.Command(path, "-c", reportScript, path, look)
		cmd.Stdin = strings.NewReader(word + "\nrest\n")
		out, err := cmd.Output()
		if cmd.ProcessState.ExitCode() != 7 {
			t.Errorf("%s: got error %v, want cmd.ProcessState.ExitCode() 7", shell, err)
		}
		text, reported := strings.CutSuffix(string(out), "\x1b]7;"+word+";/tmp\a")
		if !reported || strings.Contains(text, word) || !strings.Contains(text, "PATH=") {
			t.Errorf(`%s: got %q; want reported true, text without %q, text with "PATH="`, shell, out, word)
		}
	}
}

func TestTheWordIsNotShown(t *testing.T) {
	const word = "0123456789abcdef"
	for size := 1; size < 12; size++ {
		var to bytes.Buffer
		f := &cwdFilter{to: &to, begin: []byte("\x1b]7;" + word + ";"), echo: []byte(word + "\r\n")}
		for text := word + "\r\nhello 0123\x1b]7;" + word + ";/tmp\aend"; text != ""; {
			n := min(size, len(text))
			if _, err := f.Write([]byte(text[:n])); err != nil {
				t.Fatal(err)
			}
			text = text[n:]
		}
		if err := f.flush(); err != nil || to.String() != "hello 0123end" || f.dir != "/tmp" {
			t.Errorf("in pieces of %d: %q, %q, %v", size, to.String(), f.dir, err)
		}
	}
}
