package environments

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/cmd/codex/cli/sandbox"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execenv"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/terminal"
	"github.com/urfave/cli/v2"
)

// maxChecks bounds the environments that are checked at the same time: each may start a program.
const maxChecks = 16

// checkedEnvironment is the result of a connection to an environment. Error is set if the
// connection failed, and the fields after it if it succeeded.
type checkedEnvironment struct {
	environmentEntry
	OK          bool          `json:"ok"`
	Error       string        `json:"error,omitempty"`
	ConnectMS   float64       `json:"connectMs,omitempty"`
	RoundTripMS float64       `json:"roundTripMs,omitempty"`
	Shell       *checkedShell `json:"shell,omitempty"`
	OS          string        `json:"os,omitempty"`
	Version     string        `json:"version,omitempty"`
	// Sandbox says whether a command was confined: yes, no, or unknown if the server does not
	// report it.
	Sandbox string `json:"sandbox,omitempty"`
}

type checkedShell struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

func environmentsCheckCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "check", Usage: "connect to environments and report whether they work", ArgsUsage: "[ID...]",
		Description: `Connects to all environments, or to those named, at the same time, and runs a
command that does nothing in a sandbox of each. Exits with 1 if one of them fails.

With --json: a list of the objects of codex environments list --json, each with ok and
error, or with ok, connectMs, roundTripMs (of a request), shell {name, path}, os,
version and sandbox (whether the sandbox confined the command: yes, no or unknown).

Example:
   codex environments check build-box`,
		Flags: []cli.Flag{&cmdutil.Operands{Kind: cmdutil.OfferWords, Words: IDs}, &cli.BoolFlag{Name: "json", Usage: "print everything as one JSON list"}},
		Action: func(c *cli.Context) error {
			config, err := Load("")
			if err != nil {
				return err
			}
			Warn(s.Err, config)
			ids := c.Args().Slice()
			if len(ids) == 0 { // in the order of list
				for _, e := range config.Environments {
					ids = append(ids, e.ID)
				}
			}
			if len(ids) == 0 {
				return fmt.Errorf("no environments are configured: %s", noEnvironments(config))
			}
			ctx, stop := signal.NotifyContext(c.Context, append(cmdutil.NotIgnored(os.Interrupt), syscall.SIGTERM)...)
			defer stop()
			results, err := checkEnvironments(ctx, config, ids)
			if err != nil {
				return err
			}
			show := showChecked
			if c.Bool("json") {
				show = func(to io.Writer, results []checkedEnvironment) error { return cmdutil.PrintJSON(to, results) }
			}
			if err := show(s.Out, results); err != nil {
				return err
			}
			for _, r := range results {
				if !r.OK {
					return &cmdutil.ExitError{Code: cmdutil.ExitFailed}
				}
			}
			return nil
		},
	}
}

// checkEnvironments checks several environments at the same time.
func checkEnvironments(ctx context.Context, config execenv.Config, ids []string) ([]checkedEnvironment, error) {
	specs := make([]execenv.Spec, 0, len(ids))
	for _, id := range ids {
		s, ok := config.Find(id)
		if !ok {
			return nil, UnknownEnvironment(config, id)
		}
		specs = append(specs, s)
	}
	results := make([]checkedEnvironment, len(specs))
	room := make(chan struct{}, maxChecks)
	var wg sync.WaitGroup
	for i, s := range specs {
		wg.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			results[i] = checkEnvironment(ctx, s)
			results[i].environmentEntry = newEnvironmentEntry(config, s)
		})
	}
	wg.Wait()
	return results, nil
}

// checkEnvironment checks one environment.
func checkEnvironment(ctx context.Context, s execenv.Spec) (r checkedEnvironment) {
	said := &cmdutil.Tail{}
	began := time.Now()
	client, err := execenv.Connect(ctx, s, execenv.Options{
		UserAgent: cmdutil.UserAgent("codex-environments"), SelfExe: cmdutil.SelfExe(), Stderr: said,
	})
	if err != nil {
		r.Error = said.Explain(err)
		return r
	}
	defer client.Close()
	r.ConnectMS = milliseconds(time.Since(began))
	patience := s.InitializeTimeout
	if patience == 0 {
		patience = execclient.DefaultInitializeTimeout
	}
	bound, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began = time.Now()
	info, err := client.EnvironmentInfo(bound)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		r.Error = fmt.Sprintf("the server does not answer %s within %v", execproto.MethodEnvironmentInfo, patience)
		return r
	case err != nil:
		r.Error = said.Explain(err)
		return r
	}
	r.RoundTripMS = milliseconds(time.Since(began))
	r.OK, r.Shell, r.OS, r.Version = true, &checkedShell{info.Shell.Name, info.Shell.Path}, info.PlatformOS, info.ExecutorVersion
	if r.Sandbox, err = trySandbox(bound, client, info); err != nil {
		r.OK, r.Error = false, said.Explain(err)
	}
	return r
}

// trySandbox determines whether a server confines a command that requests a sandbox. It runs a command that
// does nothing.
func trySandbox(ctx context.Context, client *execclient.Client, info execproto.EnvironmentInfo) (string, error) {
	cwd := info.Cwd
	if cwd == "" {
		cwd = "file:///"
	}
	policy, err := sandbox.ParsePolicy(sandbox.ReadOnly)
	if err != nil {
		return "", err
	}
	confined, err := policy.Object(cwd, info.UserHomeDir)
	if err != nil {
		return "", err
	}
	p, err := client.Start(ctx, execproto.StartParams{
		ProcessID: "sandbox-check", Argv: []string{info.Shell.Path, "-c", ":"}, Cwd: cwd, Env: map[string]string{}, Sandbox: confined,
	})
	var refused *execclient.ServerError
	switch {
	case errors.As(err, &refused):
		return "no", nil
	case err != nil:
		return "", err
	}
	if _, err := p.WaitClosed(ctx); err != nil {
		return "", err
	}
	switch p.SandboxType() {
	case "":
		return "unknown", nil
	case "none":
		return "no", nil
	default:
		return "yes", nil
	}
}

// milliseconds returns a duration in milliseconds, with three decimals.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// showChecked prints the results as text, in order. The error of an environment is in the place of its
// other columns.
func showChecked(to io.Writer, results []checkedEnvironment) error {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "id\tresult\tconnected in\tround trip\tos\tversion\tshell\tsandbox")
	for _, r := range results {
		if !r.OK {
			fmt.Fprintf(w, "%s\tFAILED\t\t\t\t\t\t\n", terminal.Text(r.ID))
			continue
		}
		told := func(text string) string {
			if text == "" {
				return "not told"
			}
			return terminal.Text(text)
		}
		fmt.Fprintf(w, "%s\tok\t%.1f ms\t%.1f ms\t%s\t%s\t%s\t%s\n", terminal.Text(r.ID), r.ConnectMS, r.RoundTripMS,
			told(r.OS), told(r.Version), told(r.Shell.Path), r.Sandbox)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	lines := strings.SplitAfter(b.String(), "\n")
	for i, r := range results {
		if line := &lines[i+1]; !r.OK {
			*line = fmt.Sprintf("%s  %s (%s): %s\n", strings.TrimRight(*line, " \n"), terminal.Text(r.Address), terminal.Text(r.Source), terminal.Text(r.Error))
		}
	}
	_, err := io.WriteString(to, strings.Join(lines, ""))
	return err
}
