package environments

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"runtime"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execenv"
	"codex.internal/pkg/host/terminal"
)

// systems maps the output of uname -sm to the systems for which the server is built.
var systems = map[string]string{"Linux x86_64": "linux/amd64", "Linux aarch64": "linux/arm64"}

// install copies this program to a machine. It replaces the file in one step, so that a running server there
// keeps the old file.
func install(ctx context.Context, errs io.Writer, h execenv.SSHHost) error {
	there, err := sshOutput(ctx, errs, h, nil, "uname -sm")
	if err != nil {
		return err
	}
	own := runtime.GOOS + "/" + runtime.GOARCH
	if systems[there] == "" {
		return fmt.Errorf("that machine is %s, and the server runs on Linux only, on amd64 and arm64", terminal.Text(there))
	}
	if systems[there] != own {
		return fmt.Errorf("that machine is %s, and this program is for %s; install one for it there", terminal.Text(there), own)
	}
	self := cmdutil.SelfExe()
	f, err := os.Open(self)
	if err != nil {
		return fmt.Errorf("open this program: %w", err)
	}
	defer f.Close()
	target := execenv.InstalledCodex
	script := fmt.Sprintf(`set -e; umask 022; cd; mkdir -p %s; t=%s.$$; trap 'rm -f "$t"' EXIT; cat > "$t"; chmod 755 "$t"; "$t" --version; mv -f "$t" %s`,
		path.Dir(target), target, target)
	version, err := sshOutput(ctx, errs, h, f, script)
	if err != nil {
		return err
	}
	fmt.Fprintf(errs, "codex: copied this program (%s) to %s:~/%s\n", terminal.Text(version), h.Host, target)
	return nil
}

// sshOutput runs a command line on the machine and returns its output without surrounding spaces.
// It omits a banner before the last line.
func sshOutput(ctx context.Context, errs io.Writer, h execenv.SSHHost, stdin io.Reader, line string) (string, error) {
	program, args := h.Command(line)
	cmd := exec.CommandContext(ctx, program, args...)
	said := &cmdutil.Tail{}
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &limitedBuffer{to: &out}, io.MultiWriter(said, errs)
	if err := cmd.Run(); err != nil {
		return "", errors.New(said.Explain(err))
	}
	text := strings.TrimSpace(out.String())
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:]), nil
}

// maxPrinted bounds the retained output of ssh, in bytes.
const maxPrinted = 64 << 10

// limitedBuffer keeps the beginning of the data written to it.
type limitedBuffer struct{ to *bytes.Buffer }

func (b *limitedBuffer) Write(text []byte) (int, error) {
	b.to.Write(text[:min(len(text), maxPrinted-b.to.Len())])
	return len(text), nil
}
