package execenv

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"codex.internal/pkg/execclient"
)

// SSHHost is a machine on which ssh starts a server.
type SSHHost struct {
	// Host is what ssh takes: a name of its configuration, HOST or USER@HOST.
	Host string
	// Args are options of ssh, before the host.
	Args []string
	// Codex is the path of the program there; empty: it is looked for.
	Codex string
}

// InstalledCodex is where a copy of this program is put on a machine that is reached by
// ssh, below the home directory: not on the PATH, where it could take the place of
// another codex.
const InstalledCodex = ".local/share/codex-exec-server/codex"

// notFound is what the shell on the other machine says when it finds no program.
const notFound = "codex-exec-server-not-found"

// Command returns the program and arguments that run a command line by the shell of the
// other machine. No terminal is asked for anything: the program has none of its own. A
// machine that is gone is noticed after 15 s.
func (h SSHHost) Command(line string) (program string, args []string) {
	args = append(args, h.Args...)
	args = append(args, "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")
	return "ssh", append(args, "--", h.Host, "exec sh -c "+quote(line))
}

// serverLine is the command line that finds the program and starts a server.
func (h SSHHost) serverLine() string {
	places := `"$HOME/` + InstalledCodex + `" "$(command -v codex)" "$HOME/.local/bin/codex" "$HOME/bin/codex" /usr/local/bin/codex /opt/codex/bin/codex`
	if h.Codex != "" {
		places = quote(h.Codex)
		if rest, ok := strings.CutPrefix(h.Codex, "~/"); ok {
			places = `"$HOME"/` + quote(rest)
		}
	}
	return `CODEX_LOG="${CODEX_LOG:-warn}"; export CODEX_LOG; for p in ` + places +
		`; do if [ -n "$p" ] && [ -x "$p" ]; then exec "$p" exec-server --listen stdio; fi; done; echo ` + notFound + ` >&2; exit 127`
}

// quote returns a text as one word of a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// SSHError says why a server could not be started by ssh.
type SSHError struct {
	Host string
	// Said is the last line of what ssh said; empty: nothing.
	Said string
	Err  error
}

func (e *SSHError) Error() string {
	hint := ""
	switch {
	case e.Said == notFound:
		return fmt.Sprintf("ssh %s: there is no codex on that machine: neither on its PATH, nor in ~/.local/bin, ~/bin or /usr/local/bin; "+
			"name its path by codex = \"/path/of/codex\", or copy this program there by codex environments add --ssh %s --install", e.Host, e.Host)
	case strings.Contains(e.Said, "Permission denied"):
		hint = "; no password is asked for here: add a key, and try ssh " + e.Host + " true"
	case strings.Contains(e.Said, "Host key verification failed"):
		hint = "; its key is not known yet, or has changed: try ssh " + e.Host + " true"
	case e.Said == "":
		return fmt.Sprintf("ssh %s: %v", e.Host, e.Err)
	}
	return fmt.Sprintf("ssh %s: %s%s", e.Host, e.Said, hint)
}

// Unwrap returns the error of the connection.
func (e *SSHError) Unwrap() error { return e.Err }

// connectSSH starts a server by ssh. What ssh says until the server has answered is the
// reason if it fails; otherwise it is dropped, because shells say good morning there.
func connectSSH(ctx context.Context, h SSHHost, stderr io.Writer, opts execclient.Options) (*execclient.Client, error) {
	said := &gate{to: stderr}
	command := execclient.Command{Stderr: said}
	command.Path, command.Args = h.Command(h.serverLine())
	client, err := execclient.StartCommand(ctx, command, opts)
	if err != nil {
		return nil, &SSHError{Host: h.Host, Said: said.reason(), Err: err}
	}
	said.open()
	return client, nil
}

// gate keeps the end of what is written to it until it is open, and then passes on
// what comes.
type gate struct {
	to io.Writer

	mu     sync.Mutex
	kept   []byte
	opened bool
}

func (g *gate) Write(text []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened {
		return g.to.Write(text)
	}
	g.kept = append(g.kept, text...)
	g.kept = g.kept[max(len(g.kept)-maxSaid, 0):]
	return len(text), nil
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened, g.kept = true, nil
}

// reason returns the last line, or notFound if that is one of the lines: what the shell on the other
// machine greets with on its standard output can come later than what it then says on standard error.
func (g *gate) reason() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	lines := bytes.Split(bytes.TrimSpace(g.kept), []byte("\n"))
	for _, line := range lines {
		if string(bytes.TrimSpace(line)) == notFound {
			return notFound
		}
	}
	return strings.ToValidUTF8(string(bytes.TrimSpace(lines[len(lines)-1])), "\uFFFD")
}
