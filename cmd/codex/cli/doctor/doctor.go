// Package doctor implements the command codex doctor, which prints what sandboxes this machine can
// enforce.
package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/host/terminal"
	"codex.internal/pkg/sandbox/doctor"
	"github.com/urfave/cli/v2"
)

func Command(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "report which sandboxes this machine supports, and how to enable others",
		Description: `Runs each sandbox backend once, and tries terminals, cgroups and inotify. Nothing on
the machine changes. For everything that does not work, it says why and how to enable it.

Exits with 0 if a workspace-write policy can be enforced here, and with 1 if not. That
needs namespaces, made by codex or by bwrap. Landlock alone can enforce read-only
policies only: it cannot protect .git in a writable directory.

With --json: schema (1), version, system, arch, kernel, uid, container,
readOnly and workspaceWrite (whether such a policy can be enforced), auto
{backend, reason}, backends [{name, works, readOnly, workspaceWrite,
ownSockets, reason?}], checks [{name, status, detail, matters?, causes, fixes}],
notes. A status is ok, warning, failed or absent (not there, and not needed here).

Example:
   codex doctor --json`,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print everything as one JSON object"}},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return cmdutil.Usagef("doctor takes no arguments, got %q", c.Args().First())
			}
			// An interrupt ends the check in progress, which then cleans up.
			ctx, stop := signal.NotifyContext(c.Context, append(cmdutil.NotIgnored(os.Interrupt), syscall.SIGTERM)...)
			defer stop()
			r := doctor.Examine(ctx)
			if ctx.Err() != nil {
				return errors.New("interrupted")
			}
			r.Version = cmdutil.Version()
			show := showReport
			if c.Bool("json") {
				show = showReportJSON
			}
			if err := show(s.Out, r); err != nil {
				return err
			}
			if !r.WorkspaceWrite {
				return &cmdutil.ExitError{Code: cmdutil.ExitFailed}
			}
			return nil
		},
	}
}

func showReportJSON(to io.Writer, r *doctor.Report) error {
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// titles are the names of checks in a report.
var titles = map[string]string{
	doctor.UserNamespace: "user namespaces", doctor.UserMapping: "  with this user in it",
	doctor.MountNamespace: "  with mounts", doctor.MountAPI: "mount API", doctor.PIDNamespace: "PID namespaces",
	doctor.FreshProc: "fresh /proc", doctor.NetworkNamespace: "network namespaces",
	doctor.OtherNamespaces: "IPC, UTS namespaces", doctor.Seccomp: "seccomp", doctor.Landlock: "Landlock",
	doctor.SecondWall: "second wall",
	doctor.Bubblewrap: "bubblewrap", doctor.Terminal: "terminals", doctor.Cgroup: "cgroups", doctor.Inotify: "inotify",
	doctor.Helpers: "helpers",
}

// marks are the words for statuses in the report.
var marks = map[doctor.Status]string{doctor.OK: "ok", doctor.Warning: "warning", doctor.Failed: "FAILED", doctor.Absent: "-"}

// showReport prints a report as text: the checks, the features of the backends, and advice.
func showReport(to io.Writer, r *doctor.Report) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "codex %s on %s/%s", r.Version, r.System, r.Arch)
	if r.Kernel != "" {
		fmt.Fprintf(&b, ", kernel %s, user %d", r.Kernel, r.UID)
	}
	if r.Container != "" {
		fmt.Fprintf(&b, ", in a container (%s)", r.Container)
	}
	b.WriteString("\n\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, c := range r.Checks {
		fmt.Fprintf(w, "%s\t%s\t%s\n", title(c.Name), marks[c.Status], terminal.Text(c.Detail))
	}
	if len(r.Backends) > 0 {
		fmt.Fprint(w, "\t\t\nbackend\tread-only\tworkspace-write\n")
	}
	for _, backend := range r.Backends {
		fmt.Fprintf(w, "%s\t%s\t%s\n", backend.Name, yes(backend.ReadOnly), yes(backend.WorkspaceWrite))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	text := trimLines(b.String())
	b.Reset()
	b.WriteString(text)
	if len(r.Checks) > 0 {
		b.WriteString("\n")
	}
	for _, backend := range r.Backends {
		if backend.Reason != "" {
			fmt.Fprintf(&b, "%s: %s\n", backend.Name, terminal.Text(backend.Reason))
		}
	}
	switch {
	case len(r.Backends) == 0:
	case r.Auto.Backend == "":
		b.WriteString("The backend auto finds no backend that works.\n")
	case r.Auto.Backend == r.Backends[0].Name:
		fmt.Fprintf(&b, "The backend auto uses %s: %s.\n", r.Auto.Backend, terminal.Text(r.Auto.Reason))
	default:
		fmt.Fprintf(&b, "The backend auto uses %s, because those before it do not work here.\n", r.Auto.Backend)
	}
	for _, note := range r.Notes {
		fmt.Fprintln(&b, terminal.Text(note))
	}
	remedies(&b, r)
	_, err := to.Write(b.Bytes())
	return err
}

func title(name string) string {
	if t, ok := titles[name]; ok {
		return t
	}
	return name
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// trimLines removes the blanks at the ends of a table's lines.
func trimLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// remedies prints, for each failed check, why it matters, the cause and how to enable it.
func remedies(b *bytes.Buffer, r *doctor.Report) {
	for _, c := range r.Checks {
		if c.Status != doctor.Warning && c.Status != doctor.Failed {
			continue
		}
		fmt.Fprintf(b, "\n%s: %s.\n", strings.TrimSpace(title(c.Name)), c.Matters)
		if len(c.Causes) == 0 {
			b.WriteString("  The kernel does not report what forbids it.\n")
		}
		if len(c.Causes) > 1 {
			b.WriteString("  Each of these may forbid it:\n")
		}
		for i, cause := range c.Causes {
			fmt.Fprintf(b, "  why: %s\n", terminal.Text(cause))
			if i < len(c.Fixes) {
				fmt.Fprintf(b, "  fix: %s\n", terminal.Text(c.Fixes[i]))
			}
		}
	}
}
