package cmdutil

import (
	"io"
	"strings"
	"testing"

	"codex.internal/pkg/execproto"
	"github.com/urfave/cli/v2"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]uint64{
		"1": 1, "17b": 17, "2k": 2 << 10, "512M": 512 << 20, "2G": 2 << 30, "2GiB": 2 << 30, "3tb": 3 << 40, "8388607T": 8388607 << 40,
		"": 0, "0": 0, "G": 0, "-1": 0, "1.5G": 0, "1 G": 0, "1P": 0, "1Gi": 0, "1ib": 0, "8388608T": 0, "18446744073709551616": 0, "9223372036854775808": 0,
	} {
		if n, ok := ParseSize(text); n != want || ok != (want > 0) {
			t.Errorf("%q is %d, %t; want %d", text, n, ok, want)
		}
	}
}

func TestLimits(t *testing.T) {
	all := execproto.ProcessLimits{
		MemoryBytes: 2 << 30, SwapBytes: 1 << 20, PIDs: 7, CPUMillis: 1500, CPUSeconds: 90, OutputBytes: 5, FileBytes: 1 << 10, OpenFiles: 64, Require: true,
	}
	words := []string{"--memory=2G", "--swap=1M", "--pids=7", "--cpus=1.5", "--cpu-time=1m30s", "--output-limit=5", "--file-size=1k", "--open-files=64", "--require-limits"}
	if l, err := limitsOf(words); err != nil || l == nil || *l != all {
		t.Errorf("%+v, %v; want %+v", l, err, all)
	}
	if l, err := limitsOf(nil); err != nil || l != nil {
		t.Errorf("without options: %+v, %v", l, err)
	}
	all.WallMS = 1500
	words = []string{"--limit-memory=2G", "--limit-swap=1M", "--limit-pids=7", "--limit-cpus=1.5", "--limit-cpu-time=1m30s", "--limit-time=1.5s",
		"--limit-output=5", "--limit-file-size=1k", "--limit-open-files=64", "--limit-require"}
	if l, err := limitsOf(words); err != nil || l == nil || *l != all {
		t.Errorf("%+v, %v; want %+v", l, err, all)
	}
	for word, want := range map[string]string{
		"--memory=": "bytes", "--memory=lots": "512M", "--pids=0": "number", "--pids=-1": "NUMBER", "--cpus=0": "above 0", "--cpus=nan": "NUMBER",
		"--cpus=inf": "NUMBER", "--cpu-time=1ms": "second", "--cpu-time=5": "DURATION", "--swap=1G": "needs a limit of memory", "--limit-time=0s": "duration",
		"--limit-time=-1m": "DURATION",
	} {
		if _, err := limitsOf([]string{word}); err == nil || !strings.Contains(strings.ToUpper(err.Error()), strings.ToUpper(want)) {
			t.Errorf("%s: got error %v; want an error, strings.ToUpper(err.Error()) with strings.ToUpper(want)", word, err)
		}
	}
}

// limitsOf runs a command with the limit options of a server or of a client, according to the words.
func limitsOf(words []string) (l *execproto.ProcessLimits, err error) {
	app := &cli.App{Writer: io.Discard, ErrWriter: io.Discard, Flags: RemoteLimitFlags(), ExitErrHandler: func(*cli.Context, error) {}}
	read := RemoteLimits
	if len(words) > 0 && strings.HasPrefix(words[0], "--limit-") {
		app.Flags = ServerLimitFlags()
		read = func(c *cli.Context) (*execproto.ProcessLimits, error) {
			l, err := ServerLimits(c)
			return &l, err
		}
	}
	app.Action = func(c *cli.Context) error {
		l, err = read(c)
		return nil
	}
	if e := app.Run(append([]string{"test"}, words...)); e != nil {
		return nil, e
	}
	return l, err
}
