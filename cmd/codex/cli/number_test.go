package cli

import (
	"bytes"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"github.com/urfave/cli/v2"
)

// TestNumericOptions gives each numeric option of each command values outside of its range: a negative one,
// and values beyond its bounds. It also gives its bounds. No option may parse a number in another way.
func TestNumericOptions(t *testing.T) {
	t.Setenv("CODEX_HOME", t.TempDir())
	tried := 0
	app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
	walkCommands(app.Commands, nil, func(path []string) {
		for _, f := range commandAt(app.Commands, path).Flags {
			name := f.Names()[0]
			var wrong, right []string
			switch f := f.(type) {
			case *cli.GenericFlag:
				wrong, right = boundsOf(f.Value)
			case *cli.IntFlag, *cli.Int64Flag, *cli.UintFlag, *cli.Uint64Flag, *cli.Float64Flag, *cli.DurationFlag, *cli.IntSliceFlag, *cli.Int64SliceFlag, *cli.Float64SliceFlag:
				t.Errorf("codex %s: --%s is a %T, which has no bounds: use cmdutil.Count, Duration or Limit", strings.Join(path, " "), name, f)
			}
			for _, value := range wrong {
				tried++
				args := slices.Concat([]string{"codex"}, path, []string{"--" + name + "=" + value})
				var errs bytes.Buffer
				want := `error: invalid value "` + value + `" for flag -` + name + ": "
				if code := Main(args, strings.NewReader(""), io.Discard, &errs); code != cmdutil.ExitUsage || !strings.HasPrefix(errs.String(), want) {
					t.Errorf("%q: got exit code %d and %q, want %d and %q", args, code, errs.String(), cmdutil.ExitUsage, want)
				}
			}
			for _, value := range right {
				if err := f.(*cli.GenericFlag).Value.Set(value); err != nil {
					t.Errorf("codex %s --%s %s: got %v, want it to be taken", strings.Join(path, " "), name, value, err)
				}
			}
		}
	})
	if tried < 40 {
		t.Errorf("got %d values, want more than 40 for all options", tried)
	}
}

// boundsOf returns values that an option refuses, and values that it accepts.
func boundsOf(value cli.Generic) (wrong, right []string) {
	switch n := value.(type) {
	case *cmdutil.Number[int64]:
		wrong, right = []string{"-1", "many", "", strconv.FormatInt(n.Least-1, 10)}, []string{strconv.FormatInt(n.Least, 10), strconv.FormatInt(n.Most, 10)}
		if n.Most < cmdutil.NoMost {
			wrong = append(wrong, strconv.FormatInt(n.Most+1, 10))
		}
	case *cmdutil.Number[time.Duration]:
		wrong, right = []string{"-1s", "5", "soon", "", (n.Least - 1).String()}, []string{n.Least.String()}
	case *cmdutil.Limit:
		wrong = []string{"-1", "-1s", "0", "0s", "many", ""}
	}
	return wrong, right
}
