package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
	"github.com/urfave/cli/v2"
)

// TestManText writes text that roff would take for requests or escapes.
func TestManText(t *testing.T) {
	t.Parallel()
	m := &manText{}
	m.text(".profile\n'quoted\na\\b --flag")
	m.macro("SH", `say "x"`)
	m.paragraphs("One.\nTwo.\n\nExamples:\n   codex x\n   codex y")
	want := `\&.profile
\&'quoted
a\eb \-\-flag
.SH "say \(dqx\(dq"
.PP
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

// TestManPages looks for every command and option in the manual pages.
func TestManPages(t *testing.T) {
	t.Parallel()
	app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
	for _, c := range app.Commands {
		if c.Hidden || c.Name == "help" {
			continue
		}
		var b bytes.Buffer
		if err := writeMan(&b, "codex-"+c.Name, "codex", manPage("codex", c), c.Subcommands); err != nil {
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

func wantOptions(t *testing.T, page string, c *cli.Command) {
	t.Helper()
	for _, o := range c.VisibleFlags() {
		if name := roffText("--" + o.Names()[0]); !strings.Contains(page, name) {
			t.Errorf("the page does not have %s of %s", name, c.Name)
		}
	}
}
