package cmdutil

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"codex.internal/pkg/execproto"
	"github.com/urfave/cli/v2"
)

// limitOption is an option for one limit of processes. Its name depends on the command:
// codex exec-server has --limit-NAME.
type limitOption struct {
	name, remote string // the name in codex remote; "": the same name
	value, usage string
	set          func(l *execproto.ProcessLimits, text string) (ok bool)
}

// In a usage text, %s stands for "each command" or "the command".
var limitOptions = []limitOption{
	{"memory", "", "SIZE", "limit the memory of %s, with all its processes, to `SIZE`, such as 2G", sizeOf(func(l *execproto.ProcessLimits) *uint64 { return &l.MemoryBytes })},
	{"swap", "", "SIZE", "let %s use `SIZE` of swap in addition to its memory; without this option, no swap", sizeOf(func(l *execproto.ProcessLimits) *uint64 { return &l.SwapBytes })},
	{"cpus", "", "NUMBER", "limit %s to `NUMBER` processors at a time, such as 1.5", parseCPUs},
	{"pids", "", "NUMBER", "limit %s to `NUMBER` processes and threads at a time", numberOf(func(l *execproto.ProcessLimits) *uint64 { return &l.PIDs })},
	{"cpu-time", "", "DURATION", "limit the processor time of %s to `DURATION`, in whole seconds", parseCPUTime},
	{"time", "timeout", "DURATION", "kill %s after `DURATION`, such as 10m", parseTime},
	{"output", "output-limit", "SIZE", "limit the output of %s to `SIZE` in total", sizeOf(func(l *execproto.ProcessLimits) *uint64 { return &l.OutputBytes })},
	{"file-size", "", "SIZE", "limit each file that %s writes to `SIZE`", sizeOf(func(l *execproto.ProcessLimits) *uint64 { return &l.FileBytes })},
	{"open-files", "", "NUMBER", "limit the open files of each process of %s to `NUMBER`", numberOf(func(l *execproto.ProcessLimits) *uint64 { return &l.OpenFiles })},
}

// ServerLimitFlags are the options of codex exec-server for limits.
func ServerLimitFlags() []cli.Flag {
	var flags []cli.Flag
	for _, o := range limitOptions {
		flags = append(flags, &cli.GenericFlag{Name: "limit-" + o.name, Value: &Limit{option: o}, Usage: fmt.Sprintf(o.usage, "each command")})
	}
	return append(flags, &cli.BoolFlag{Name: "limit-require", Usage: "do not start a command if one of its limits cannot be enforced for all its processes"})
}

// RemoteLimitFlags are the options of codex remote for limits, without --timeout.
func RemoteLimitFlags() []cli.Flag {
	var flags []cli.Flag
	for _, o := range limitOptions {
		if name := o.remoteName(); name != "timeout" {
			flags = append(flags, &cli.GenericFlag{Name: name, Value: &Limit{option: o}, Usage: fmt.Sprintf(o.usage, "the command")})
		}
	}
	return append(flags, &cli.BoolFlag{Name: "require-limits", Usage: "do not start the command if the server cannot enforce one of its limits for all its processes"})
}

func (o *limitOption) remoteName() string {
	if o.remote != "" {
		return o.remote
	}
	return o.name
}

// ServerLimits returns the limits that the options of ServerLimitFlags set.
func ServerLimits(c *cli.Context) (execproto.ProcessLimits, error) {
	l, err := limits(c, func(o *limitOption) string { return "limit-" + o.name })
	l.Require = c.Bool("limit-require")
	return l, err
}

// RemoteLimits returns the limits that the options of RemoteLimitFlags set; nil if none is set.
func RemoteLimits(c *cli.Context) (*execproto.ProcessLimits, error) {
	l, err := limits(c, func(o *limitOption) string {
		if o.remoteName() == "timeout" {
			return ""
		}
		return o.remoteName()
	})
	if l == (execproto.ProcessLimits{}) && !c.Bool("require-limits") {
		return nil, err
	}
	l.Require = c.Bool("require-limits")
	return &l, err
}

// limits reads the options. name returns the name of an option for this command; an option with an empty name is
// skipped.
func limits(c *cli.Context, name func(*limitOption) string) (execproto.ProcessLimits, error) {
	var l execproto.ProcessLimits
	for i := range limitOptions {
		o := &limitOptions[i]
		n := name(o)
		if n == "" {
			continue
		}
		if text := c.String(n); text != "" {
			o.set(&l, text) // Limit.Set has checked it
		}
	}
	if l.SwapBytes > 0 && l.MemoryBytes == 0 {
		return l, Usagef("a limit of swap needs a limit of memory, too")
	}
	return l, nil
}

// Limit is the value of an option for a limit: a size, a number or a duration.
type Limit struct {
	option limitOption
	text   string
}

// limitForms describes the form of the values.
var limitForms = map[string]string{
	"SIZE":     "a number of bytes, or a number with K, M, G or T, such as 512M",
	"NUMBER":   "a number above 0",
	"DURATION": "a duration such as 90s or 10m, of at least a second",
}

func (l *Limit) String() string { return l.text }
func (l *Limit) Get() any       { return l.text }

// Set returns an error if the text is not such a limit.
func (l *Limit) Set(text string) error {
	if !l.option.set(new(execproto.ProcessLimits), text) {
		return fmt.Errorf("expected %s", limitForms[l.option.value])
	}
	l.text = text
	return nil
}

func sizeOf(member func(*execproto.ProcessLimits) *uint64) func(*execproto.ProcessLimits, string) bool {
	return func(l *execproto.ProcessLimits, text string) bool {
		n, ok := ParseSize(text)
		*member(l) = n
		return ok
	}
}

func numberOf(member func(*execproto.ProcessLimits) *uint64) func(*execproto.ProcessLimits, string) bool {
	return func(l *execproto.ProcessLimits, text string) bool {
		n, err := strconv.ParseUint(text, 10, 64)
		*member(l) = n
		return err == nil && n > 0
	}
}

func parseCPUs(l *execproto.ProcessLimits, text string) bool {
	const most = 1 << 20 // processors: far more than any machine has
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0.001 && n <= most) {
		return false
	}
	l.CPUMillis = uint64(math.Round(n * 1000))
	return true
}

func parseCPUTime(l *execproto.ProcessLimits, text string) bool {
	d, err := time.ParseDuration(text)
	l.CPUSeconds = uint64(max(d, 0) / time.Second)
	return err == nil && l.CPUSeconds > 0
}

func parseTime(l *execproto.ProcessLimits, text string) bool {
	d, err := time.ParseDuration(text)
	l.WallMS = uint64(max(d, 0).Milliseconds())
	return err == nil && d >= time.Second
}

// ParseSize parses a number of bytes above 0. It may end with K, M, G or T, in either case, for 2^10 to 2^40, and
// with B or iB after that.
func ParseSize(text string) (uint64, bool) {
	digits := strings.TrimRight(text, "KMGTkmgtiBb")
	shift := 0
	switch strings.ToLower(text[len(digits):]) {
	case "", "b":
	case "k", "kb", "kib":
		shift = 10
	case "m", "mb", "mib":
		shift = 20
	case "g", "gb", "gib":
		shift = 30
	case "t", "tb", "tib":
		shift = 40
	default:
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n == 0 || n > math.MaxInt64>>shift {
		return 0, false
	}
	return n << shift, true
}
