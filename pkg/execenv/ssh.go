package execenv

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/host/safeopen"
)

// SSHHost is a machine on which ssh starts a server.
type SSHHost struct {
	// Host is the destination for ssh: a name in its configuration, HOST or USER@HOST.
	Host string
	// Args are options for ssh, placed before the host.
	Args []string
	// Codex is the path of the program on that machine; empty: it is searched for.
	Codex string
	// Sockets is a directory for the sockets of shared connections: see SocketDir. Empty: each
	// command makes its own connection.
	Sockets string
}

// SocketDir returns the directory for the sockets of connections that ssh commands share.
func SocketDir(home string) string { return filepath.Join(home, "tmp", "ssh") }

// InstalledCodex is the path of an installed copy of this program on a machine that is reached
// by ssh, below the home directory. It is not on the PATH, so that it does not replace another
// codex.
const InstalledCodex = ".local/share/codex-exec-server/codex"

// notFound is printed by the shell on the other machine if it finds no program.
const notFound = "codex-exec-server-not-found"

// Command returns the program and arguments that run a shell command line on the other
// machine. ssh asks no questions, because it has no terminal. A machine that does not answer
// is detected after 15 s.
func (h SSHHost) Command(line string) (program string, args []string) {
	args = append(args, h.Args...)
	args = append(args, "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")
	args = append(args, h.shared()...)
	return "ssh", append(args, "--", h.Host, "exec sh -c "+quote(line))
}

// plainPath matches a path that has the same meaning in ssh's configuration.
var plainPath = regexp.MustCompile(`^/[A-Za-z0-9/._+@,-]+$`)

// shared returns the options with which the commands for one machine, user and port share a
// connection: the first command makes it, and ssh ends it sharedTime after the last one. ssh uses the
// first value of an option, so the user's options in Args take precedence. A process that can connect
// to the socket can run commands on the other machine, so its directory must be private. Without such
// a directory, or if the path is too long for a socket, nothing is shared.
func (h SSHHost) shared() []string {
	if h.Sockets == "" || runtime.GOOS == "windows" || len(h.Sockets) > maxSocketDir || !plainPath.MatchString(h.Sockets) {
		return nil
	}
	dir, err := safeopen.PrivateDir(h.Sockets, true)
	if err != nil {
		return nil
	}
	_ = dir.Close()
	return []string{"-o", "ControlMaster=auto", "-o", "ControlPath=" + h.Sockets + "/%C", "-o", "ControlPersist=" + strconv.Itoa(int(sharedTime.Seconds()))}
}

// serverLine returns the command line that finds the program and starts a server.
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

// server returns the command that starts the server.
func (h SSHHost) server(said *gate) execclient.Command {
	command := execclient.Command{Stderr: said, Banner: (*greeting)(said)}
	command.Path, command.Args = h.Command(h.serverLine())
	return command
}

// quote quotes a text for a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// SSHError is the error of starting a server by ssh.
type SSHError struct {
	Environment string // its id
	Host        string
	// Said is the last line that ssh printed; empty: none.
	Said string
	Err  error
}

func (e *SSHError) Error() string {
	hint := ""
	switch {
	case e.Said == notFound:
		return fmt.Sprintf("ssh %s: codex is not installed on that machine: it is neither on its PATH, nor in ~/.local/bin, ~/bin or /usr/local/bin; "+
			"copy this program there by codex environments install %s, or name its path by codex environments add --codex", e.Host, e.Environment)
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

// connectSSH starts a server by ssh. If that fails, the last line that ssh printed is the
// reason. Otherwise the output until the server answers is dropped, because shells print
// greetings.
func connectSSH(ctx context.Context, id string, h SSHHost, stderr io.Writer, opts execclient.Options) (*execclient.Client, error) {
	said := &gate{to: stderr}
	client, err := execclient.StartCommand(ctx, h.server(said), opts)
	if err != nil {
		return nil, &SSHError{Environment: id, Host: h.Host, Said: said.reason(), Err: err}
	}
	said.open()
	return client, nil
}

// gate buffers the end of the data that is written to it. Once opened, it passes data on.
type gate struct {
	to io.Writer

	mu       sync.Mutex
	kept     []byte
	greeting []byte // from standard output
	opened   bool
}

// greeting writes what the shell prints on standard output to a gate. It may arrive before or after the messages on standard error,
// so it is the reason of a failure only if there is no such message.
type greeting gate

func (g *greeting) Write(text []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.greeting = append(g.greeting, text...)
	g.greeting = g.greeting[max(len(g.greeting)-maxSaid, 0):]
	return len(text), nil
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
	g.opened, g.kept, g.greeting = true, nil, nil
}

// reason returns the last line, or notFound if that is one of the lines.
func (g *gate) reason() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	said := bytes.TrimSpace(g.kept)
	if len(said) == 0 {
		said = bytes.TrimSpace(g.greeting)
	}
	lines := bytes.Split(said, []byte("\n"))
	for _, line := range lines {
		if string(bytes.TrimSpace(line)) == notFound {
			return notFound
		}
	}
	return strings.ToValidUTF8(string(bytes.TrimSpace(lines[len(lines)-1])), "\uFFFD")
}
