// Package account has the commands that sign in and out: codex login and codex
// logout.
package account

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/account/home"
	"codex.internal/pkg/account/httpclient"
	"codex.internal/pkg/account/signin"
	"codex.internal/pkg/host/safeopen"
	"codex.internal/pkg/host/terminal"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"
)

// maxSecret bounds a key or token that is read from stdin, in bytes:
// tokens have a few kilobytes.
const maxSecret = 1 << 20

// Identity has the external dependencies of signing in. Tests replace them.
type Identity struct {
	transport http.RoundTripper      // nil: the transport that the environment defines
	ports     []int                  // ports to which the browser returns; nil: the usual ones
	Open      func(url string) error // opens a browser
}

func LoginCommand(s cmdutil.Streams, id Identity) *cli.Command {
	return &cli.Command{
		Name: "login", Usage: "sign in",
		Description: `Signs in to ChatGPT with a browser on this machine; with --device-auth, with a
browser anywhere. API keys and access tokens are read from stdin. The credentials
are stored in $CODEX_HOME/` + signin.FileName + `.

Examples:
   codex login
   codex login --device-auth
   printenv OPENAI_API_KEY | codex login --with-api-key
   printenv CODEX_ACCESS_TOKEN | codex login --with-access-token
   codex login status`,
		Flags: append(cmdutil.ConfigFlags(),
			&cli.BoolFlag{Name: "device-auth", Usage: "sign in with a browser on another machine"},
			&cli.BoolFlag{Name: "with-api-key", Usage: "read an API key from stdin"},
			&cli.BoolFlag{Name: "with-access-token", Usage: "read an access token from stdin"},
			&cli.StringFlag{Name: "api-key", Hidden: true},
			&cli.StringFlag{Name: "experimental_issuer", Hidden: true},
			&cli.StringFlag{Name: "experimental_client-id", Hidden: true},
		),
		Subcommands: []*cli.Command{{
			Name: "status", Usage: "show how you are signed in", Flags: cmdutil.ConfigFlags(),
			Description: `Exits with 0 if you are signed in, and with 1 if not. CODEX_API_KEY is ignored: it is
used for registering a server only.

Example:
   codex login status`,
			Action: func(c *cli.Context) error { return withLogin(c, s, id, (*loginRun).status) },
		}},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return cmdutil.UnknownCommand(c)
			}
			return withLogin(c, s, id, (*loginRun).login)
		},
	}
}

func LogoutCommand(s cmdutil.Streams, id Identity) *cli.Command {
	return &cli.Command{
		Name: "logout", Usage: "sign out",
		Description: `Revokes the tokens of a ChatGPT account and deletes the stored credentials.

Example:
   codex logout`,
		Flags:  cmdutil.ConfigFlags(),
		Action: func(c *cli.Context) error { return withLogin(c, s, id, (*loginRun).logout) },
	}
}

// loginRun is one run of a command that signs in or out.
type loginRun struct {
	c      *cli.Context
	s      cmdutil.Streams
	id     Identity
	config home.Config
	log    *slog.Logger // logs to codex-login.log
	in     signin.Login
}

// withLogin runs a command with a loginRun, and closes its log.
func withLogin(c *cli.Context, s cmdutil.Streams, id Identity, run func(*loginRun) error) error {
	if err := cmdutil.RefuseRootFlags(c); err != nil {
		return err
	}
	dir, err := home.Find()
	var config home.Config
	if err == nil {
		config, err = cmdutil.LoadConfig(c)
	}
	if err != nil {
		cmdutil.Messagef(s.Err, "Error loading configuration: %v\n", err)
		return &cmdutil.ExitError{Code: cmdutil.ExitFailed}
	}
	store, err := signin.OpenStore(config.CredentialsStore, dir, func(text string) { fmt.Fprintf(s.Err, "WARNING: %s\n", terminal.Text(text)) })
	if err != nil {
		return err
	}
	if id.transport == nil {
		transport, err := httpclient.New(os.Getenv)
		if err != nil {
			return err
		}
		defer transport.CloseIdleConnections()
		id.transport = transport
	}
	file, log := openLoginLog(dir, c.Command.Name == "login", s.Err)
	defer func() { _ = file.Close() }()
	authority := signin.NewAuthority(signin.AuthorityOptions{Getenv: os.Getenv, Transport: id.transport, Version: cmdutil.Version()})
	r := &loginRun{c: c, s: s, id: id, config: config, log: log.With("command", c.Command.FullName(), "pid", os.Getpid()), in: signin.Login{
		Authority: authority, Store: store, ChatGPTBaseURL: config.ChatGPTBaseURL, Workspaces: config.ForcedWorkspaceIDs,
	}}
	r.log.Info("started")
	err = run(r)
	r.log.Info("ended", "code", codeOf(err))
	return err
}

// codeOf returns the exit code for an error.
func codeOf(err error) int {
	if err == nil {
		return 0
	}
	return cmdutil.ExitCode(err)
}

// openLoginLog opens the log of codex login and logout. It contains no secrets, but it shows when and how the user
// signed in, so only the user can read it. If it cannot be opened, a warning is printed and the command continues.
// If there is no home directory, there is no log, unless makeHome says that signing in will create the directory.
func openLoginLog(dir string, makeHome bool, stderr io.Writer) (io.Closer, *slog.Logger) {
	path := filepath.Join(dir, "log", "codex-login.log")
	_, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) && !makeHome {
		return io.NopCloser(nil), slog.New(slog.DiscardHandler)
	}
	err = os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		var f *os.File
		if f, err = safeopen.Open(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err == nil {
			return f, slog.New(slog.NewTextHandler(f, nil))
		}
	}
	cmdutil.Messagef(stderr, "WARNING: cannot write the log of codex login: %v\n", err)
	return io.NopCloser(nil), slog.New(slog.DiscardHandler)
}

// say prints a line on stderr and returns the error that ends the command with an exit code.
func (r *loginRun) say(code int, format string, args ...any) error {
	cmdutil.Messagef(r.s.Err, format+"\n", args...)
	if code == 0 {
		return nil
	}
	return &cmdutil.ExitError{Code: code}
}

// done prints whether signing in succeeded. After a failure the message begins with what, followed by the reason.
func (r *loginRun) done(err error, what string) error {
	if err != nil {
		r.log.Error("not signed in", "error", err)
		return r.say(cmdutil.ExitFailed, "%s: %v", what, err)
	}
	return r.say(0, "Successfully logged in")
}

// login signs in by the method that the flags choose.
func (r *loginRun) login() error {
	key, token := r.c.Bool("with-api-key"), r.c.Bool("with-access-token")
	switch {
	case key && token:
		return r.say(cmdutil.ExitFailed, "Choose one login credential source: --with-api-key or --with-access-token.")
	case r.c.Bool("device-auth"):
		return r.device()
	case r.c.IsSet("api-key"):
		return r.say(cmdutil.ExitFailed, "The --api-key flag is no longer supported. Pipe the key instead, e.g. `printenv OPENAI_API_KEY | codex login --with-api-key`.")
	case key:
		return r.apiKey()
	case token:
		return r.accessToken()
	default:
		return r.browser()
	}
}

func (r *loginRun) apiKey() error {
	key, err := r.readSecret("--with-api-key", "API key", "OPENAI_API_KEY")
	switch {
	case err != nil:
		return err
	case r.config.ForcedLoginMethod == "chatgpt":
		return r.say(cmdutil.ExitFailed, "API key login is disabled. Use ChatGPT login instead.")
	}
	return r.done(r.in.APIKey(key), "Error logging in")
}

func (r *loginRun) accessToken() error {
	token, err := r.readSecret("--with-access-token", "access token", "CODEX_ACCESS_TOKEN")
	switch {
	case err != nil:
		return err
	case r.config.ForcedLoginMethod == "api":
		return r.say(cmdutil.ExitFailed, "Access token login is disabled. Use API key login instead.")
	}
	return r.done(r.in.AccessToken(r.c.Context, token), "Error logging in with access token")
}

// readSecret reads a secret from stdin to its end. flag is the option that asks for it, and variable the one that
// users usually store it in; both are for messages.
func (r *loginRun) readSecret(flag, what, variable string) (signin.Secret, error) {
	if f, ok := cmdutil.FileOf(r.s.In); ok && term.IsTerminal(int(f.Fd())) {
		return "", r.say(cmdutil.ExitFailed, "%s expects the %s on stdin. Try piping it, e.g. `printenv %s | codex login %s`.", flag, what, variable, flag)
	}
	fmt.Fprintf(r.s.Err, "Reading %s from stdin...\n", what)
	text, err := io.ReadAll(io.LimitReader(r.s.In, maxSecret+1))
	switch {
	case err != nil:
		return "", r.say(cmdutil.ExitFailed, "Failed to read %s from stdin: %v", what, err)
	case len(text) > maxSecret:
		return "", r.say(cmdutil.ExitFailed, "Failed to read %s from stdin: there are more than %d bytes", what, maxSecret)
	}
	secret := strings.TrimSpace(string(text))
	switch {
	case secret == "":
		return "", r.say(cmdutil.ExitFailed, "No %s provided via stdin.", what)
	case strings.ContainsFunc(secret, func(c rune) bool { return c <= ' ' || c >= 0x7f }):
		// A header cannot carry it, so requests would fail later.
		return "", r.say(cmdutil.ExitFailed, "Failed to read %s from stdin: it contains blanks, line breaks or other invalid characters; pipe in only the key.", what)
	}
	return signin.Secret(secret), nil
}

// chatGPTDisabled returns an error if config.toml forbids to sign in with ChatGPT.
func (r *loginRun) chatGPTDisabled() error {
	if r.config.ForcedLoginMethod != "api" {
		return nil
	}
	return r.say(cmdutil.ExitFailed, "ChatGPT login is disabled. Use API key login instead.")
}

// warn logs an error that does not prevent signing in.
func (r *loginRun) warn(err error) { r.log.Warn("sign-in continues", "error", err) }

func (r *loginRun) browser() error {
	if err := r.chatGPTDisabled(); err != nil {
		return err
	}
	err := r.in.Browser(r.c.Context, signin.BrowserOptions{
		Ports: r.id.ports, Open: r.id.Open,
		Show: func(server, authorize string) {
			fmt.Fprintf(r.s.Err, "Starting local login server on %s.\nIf your browser did not open, navigate to this URL to authenticate:\n\n%s\n\n"+
				"On a remote or headless machine? Use `codex login --device-auth` instead.\n", server, authorize)
		},
		Notice: func(text string) { fmt.Fprintln(r.s.Err, terminal.Text(text)) },
		Warn:   r.warn,
	})
	return r.done(err, "Error logging in")
}

func (r *loginRun) device() error {
	if err := r.chatGPTDisabled(); err != nil {
		return err
	}
	err := r.in.Device(r.c.Context, signin.DeviceOptions{
		Issuer: r.c.String("experimental_issuer"), ClientID: r.c.String("experimental_client-id"), Warn: r.warn,
		Show: func(url, code string) {
			fmt.Fprintf(r.s.Out, `
Follow these steps to sign in with ChatGPT using device code authorization:

1. Open this link in your browser and sign in to your account
   %s

2. Enter this one-time code (expires in 15 minutes)
   %s

Device codes are a common phishing target. Never share this code.

`, terminal.Text(url), terminal.Text(code))
		},
	})
	return r.done(err, "Error logging in with device code")
}

// status prints how the user is signed in.
func (r *loginRun) status() error {
	if r.c.Args().Present() {
		return cmdutil.Usagef("login status takes no arguments, got %q", r.c.Args().First())
	}
	resolver := signin.Resolver{
		Getenv: os.Getenv, Store: r.in.Store, Authority: r.in.Authority, ChatGPTBaseURL: r.in.ChatGPTBaseURL, Log: r.log,
	}
	credential, err := resolver.SignedIn(r.c.Context)
	switch {
	case errors.Is(err, signin.ErrNoAuth):
		return r.say(cmdutil.ExitFailed, "Not logged in")
	case err != nil:
		hint := ""
		if _, unread := r.in.Store.Load(); unread != nil && !errors.Is(unread, signin.ErrNoAuth) {
			hint = "\nhint: codex login replaces the stored credentials, and codex logout removes them"
		}
		return r.say(cmdutil.ExitFailed, "Error checking login status: %v%s", err, hint)
	default:
		return r.say(0, "%s", credential.Describe())
	}
}

// logout signs out.
func (r *loginRun) logout() error {
	if r.c.Args().Present() {
		return cmdutil.Usagef("logout takes no arguments, got %q", r.c.Args().First())
	}
	there, err := r.in.Logout(r.c.Context, func(err error) { r.log.Warn("sign-out continues", "error", err) })
	switch {
	case err != nil:
		return r.say(cmdutil.ExitFailed, "Error logging out: %v", err)
	case !there:
		return r.say(0, "Not logged in")
	default:
		return r.say(0, "Successfully logged out")
	}
}

// OpenBrowser opens a URL in the browser of the desktop. It does not wait: without a desktop, the program that
// opens the URL is the browser itself.
func OpenBrowser(url string) error {
	var cmd *exec.Cmd
	switch runtime.GOOS {
	case "darwin":
		cmd = exec.Command("open", url)
	case "windows":
		cmd = exec.Command("rundll32", "url.dll,FileProtocolHandler", url)
	default:
		cmd = exec.Command("xdg-open", url)
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}
