package cli

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/testutil"
	"github.com/urfave/cli/v2"
)

// TestManText writes text that roff would read as requests or escapes.
func TestManText(t *testing.T) {
	m := &manText{}
	m.text(".profile\n'quoted\na\\b --flag")
	m.macro("SH", `say "x"`, "a-b", "2026-11-24")
	m.paragraphs("One.\nTwo.\n\nExamples:\n   codex x\n   codex y")
	want := `\&.profile
\&'quoted
a\eb \-\-flag
.SH "say \(dqx\(dq" "a\-b" "2026-11-24"
One.
Two.
.PP
Examples:
.PP
.RS 4
.nf
codex x
codex y
.fi
.RE
`
	if m.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", m.String(), want)
	}
}

// TestManPages checks that every command and option is in the manual pages.
func TestManPages(t *testing.T) {
	app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
	for _, c := range app.Commands {
		if c.Hidden || c.Name == "help" {
			continue
		}
		var b bytes.Buffer
		if err := writeMan(&b, "codex-"+c.Name, manSource{program: "codex"}, c, c.Subcommands); err != nil {
			t.Fatal(err)
		}
		wantOptions(t, b.String(), c)
		for _, sub := range c.Subcommands {
			if !sub.Hidden && sub.Name != "help" && !strings.Contains(b.String(), `.SH "`+roffText(strings.ToUpper("codex "+c.Name+" "+sub.Name))) {
				t.Errorf("the page of %s has nothing on %s", c.Name, sub.Name)
			}
			wantOptions(t, b.String(), sub)
		}
	}
}

// pageOf returns a manual page.
func pageOf(t *testing.T, args ...string) string {
	t.Helper()
	var page bytes.Buffer
	app := newApp(cmdutil.Streams{Out: &page, Err: io.Discard})
	if err := app.Run(append([]string{"codex", "man", "--date", "2026-01-31"}, args...)); err != nil {
		t.Fatalf("%q: got error %v, want no error", args, err)
	}
	return page.String()
}

// TestManLint makes mandoc check every page, as a packager does. A warning is a failure.
func TestManLint(t *testing.T) {
	mandoc, err := exec.LookPath("mandoc")
	testutil.Need(t, "mandoc", err, exec.ErrNotFound)
	app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
	pages := map[string][]string{`"CODEX" "1"`: nil}
	for _, c := range app.Commands {
		if !c.Hidden && c.Name != "help" {
			pages[fmt.Sprintf(`"%s" "1"`, roffText(strings.ToUpper("codex-"+c.Name)))] = []string{c.Name}
		}
		if cmdutil.InFile(c) != nil {
			pages[fmt.Sprintf(`"%s.TOML" "5"`, roffText(strings.ToUpper(c.Name)))] = []string{c.Name + ".toml"}
		}
	}
	for title, args := range pages {
		page := pageOf(t, args...)
		if !strings.HasPrefix(page, ".TH "+title+` "2026-01-31" `) {
			t.Errorf("%q begins with %.80q, want the title %s", args, page, title)
		}
		var complaints bytes.Buffer
		cmd := exec.Command(mandoc, "-T", "lint", "-W", "warning")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(page), &complaints, &complaints
		if err := cmd.Run(); err != nil || complaints.Len() > 0 {
			t.Errorf("%q: mandoc: %v\n%s", args, err, complaints.String())
		}
	}
}

// TestManDate rejects text that is not a date.
func TestManDate(t *testing.T) {
	for _, date := range []string{"today", "2026-13-01", "2026-1-1", "2026-01-31T00:00:00Z"} {
		app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
		if err := app.Run([]string{"codex", "man", "--date", date}); err == nil || !strings.Contains(err.Error(), "--date") {
			t.Errorf("--date %s: %v", date, err)
		}
	}
}

func wantOptions(t *testing.T, page string, c *cli.Command) {
	t.Helper()
	for _, o := range c.VisibleFlags() {
		if name := roffText("--" + o.Names()[0]); !strings.Contains(page, name) {
			t.Errorf("the page does not have %s of %s", name, c.Name)
		}
	}
}
