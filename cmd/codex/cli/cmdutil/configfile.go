package cmdutil

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"codex.internal/pkg/account/home"
	"codex.internal/pkg/host/safeopen"
	"github.com/urfave/cli/v2"
)

const (
	// maxOptionsFile bounds a file with options, in bytes. Each option has a line.
	maxOptionsFile = 1 << 20
	// systemOptions is the directory of the files that are read by default.
	systemOptions = "/etc/codex"
	// othersWrite are the permissions with which other users can change a file.
	othersWrite = 0o022
)

// The names of the options about the file.
const (
	optionFile  = "config-file"
	optionCheck = "check-config"
	optionPrint = "print-config"
)

// OptionsFileFlags returns --config-file, --check-config and --print-config. name is the file in /etc/codex that
// is read by default, and aliases are other names of --config-file.
func OptionsFileFlags(name string, aliases ...string) []cli.Flag {
	return []cli.Flag{
		&cli.GenericFlag{Name: optionFile, Aliases: aliases, Value: new(onePath), Usage: "read options from the TOML `FILE`",
			DefaultText: filepath.ToSlash(filepath.Join(systemOptions, name)) + ", if it exists"},
		&cli.BoolFlag{Name: optionCheck, Usage: "check the options and the files that they name, then exit"},
		&cli.BoolFlag{Name: optionPrint, Usage: "print all options as a TOML file, with the source of each, then exit"},
	}
}

// OptionsFile describes how a command reads options from a file.
type OptionsFile struct {
	// Name is the name of the file in /etc/codex.
	Name string
	// Unless makes the command not read the file in /etc/codex.
	Unless bool
	// Variables names, by option, variables that set an option and that the flag library does not read.
	Variables map[string]string
	// Excluded maps an option on the command line to the options whose values in the file are then ignored.
	// Scenario: the file is for a server that listens, and the command line has --remote. It is called only if
	// there is a file. Nil: no options are ignored.
	Excluded func() map[string][]string
}

// Options are the options of a command with their origins.
type Options struct {
	c         *cli.Context
	path      string            // path of the file; empty: no file
	given     bool              // the command line names the file
	from      map[string]string // origins of the options from the file: PATH:LINE
	variables map[string]string
}

// ReadOptions sets the options that neither the command line nor a variable sets to the values in the file.
func ReadOptions(c *cli.Context, f OptionsFile) (*Options, error) {
	o := &Options{c: c, from: make(map[string]string), variables: f.Variables}
	option, path, err := takeFile(c)
	given := option != ""
	switch {
	case err != nil:
		return nil, err
	case !given && (f.Unless || runtime.GOOS == "windows"):
		return o, nil
	case !given:
		option, path = optionFile, filepath.Join(systemOptions, f.Name)
	}
	text, err := safeopen.ReadFile(path, maxOptionsFile)
	if !given && errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err == nil {
		err = onlyOurs(path)
	}
	if err != nil {
		err = fmt.Errorf("read the options of --%s: %w", option, err)
		if option == optionOverride && errors.Is(err, fs.ErrNotExist) {
			err = WithAdvice(err, "without =, --config names a file with options; a value of config.toml is KEY=VALUE")
		}
		return nil, err
	}
	o.path, o.given = path, given
	entries, wrong := home.Entries(text)
	if wrong != nil {
		wrong.Path = path
		return nil, wrong
	}
	var excluded map[string][]string
	if f.Excluded != nil {
		excluded = f.Excluded()
	}
	return o, o.apply(entries, excluded)
}

// Reread reads the options again: from the same file, and from the command line and the variables with which the program
// was started. flags are new flags of the command, because the old ones have values. o does not change.
func (o *Options) Reread(flags []cli.Flag, file func(*cli.Context) OptionsFile) (*Options, error) {
	set := flag.NewFlagSet(o.c.Command.Name, flag.ContinueOnError)
	for _, f := range flags {
		if err := f.Apply(set); err != nil {
			return nil, err
		}
	}
	command := *o.c.Command
	command.Flags = flags
	c := cli.NewContext(o.c.App, set, root(o.c))
	c.Command = &command
	for _, name := range o.c.LocalFlagNames() {
		f := find(o.c.Command.Flags, name)
		if f == nil || f.Names()[0] != name || name == optionFile || o.from[name] != "" {
			continue
		}
		value := fmt.Sprint(o.c.Value(name))
		if _, ok := f.(*cli.StringSliceFlag); ok {
			value = cli.NewStringSlice(o.c.StringSlice(name)...).Serialize()
		}
		if err := c.Set(name, value); err != nil {
			return nil, fmt.Errorf("--%s: %w", name, err)
		}
	}
	if o.given {
		if err := c.Set(optionFile, o.path); err != nil {
			return nil, err
		}
	}
	return ReadOptions(c, file(c))
}

// Changed returns the options whose values differ in other, in the order of the flags.
func (o *Options) Changed(other *Options) (names []string) {
	for _, name := range o.names() {
		if flag := o.flagNamed(name); o.value(flag, name) != other.value(flag, name) {
			names = append(names, name)
		}
	}
	return names
}

// takeFile returns the path of the file on the command line, and the name of its option; both are empty without
// such an option. As in Codex CLI, --config accepts KEY=VALUE. A value without = is the path of the file, and is
// removed from the values of --config.
func takeFile(c *cli.Context) (option, path string, err error) {
	for _, value := range root(c).StringSlice(optionOverride) {
		if !strings.Contains(value, "=") {
			return "", "", Usagef("--%[1]s before %[2]s must be KEY=VALUE; write %[2]s --%[1]s FILE for a file with options", optionOverride, c.Command.Name)
		}
	}
	if IsSet(c, optionFile) {
		option, path = optionFile, c.String(optionFile)
	}
	if flag := find(c.Command.Flags, optionOverride); flag != nil && flag.Names()[0] == optionOverride {
		overrides := []string{}
		for _, value := range c.StringSlice(optionOverride) {
			switch {
			case strings.Contains(value, "="):
				overrides = append(overrides, value)
			case option != "" && value != path:
				return "", "", Usagef("--%s: %s", optionOverride, errTwoFiles)
			default:
				option, path = optionOverride, value
			}
		}
		if option == optionOverride {
			err = c.Set(optionOverride, cli.NewStringSlice(overrides...).Serialize())
		}
	}
	if option != "" && path == "" {
		return "", "", Usagef("--%s is empty; leave it out or name a file", option)
	}
	return option, path, err
}

var errTwoFiles = errors.New("another file was given already; give one")

// onePath is the value of an option that names one file.
type onePath struct{ path string }

func (p *onePath) String() string { return p.path }

// Set returns an error if another path was given before. The library would use the last one.
func (p *onePath) Set(path string) error {
	if p.path != "" && p.path != path {
		return errTwoFiles
	}
	p.path = path
	return nil
}

// onlyOurs returns an error if other users can change the file, because its options decide who may
// run commands.
func onlyOurs(path string) error {
	info, err := os.Stat(path)
	if err == nil && runtime.GOOS != "windows" && info.Mode()&othersWrite != 0 {
		return fmt.Errorf("%s can be changed by other users; chmod go-w %s", path, path)
	}
	return err
}

// apply sets the options of a file.
func (o *Options) apply(entries []home.Entry, excluded map[string][]string) error {
	var left []string
	for option, others := range excluded {
		if IsSet(o.c, option) {
			left = append(left, others...)
		}
	}
	var set []func() error
	for _, e := range entries {
		at := o.path + ":" + strconv.Itoa(e.Line)
		flag := o.flagNamed(e.Key)
		if flag == nil {
			return o.unknown(at, e.Key)
		}
		value, err := text(flag, e.Value)
		if err == nil && e.Key == optionOverride {
			err = onlyOverrides(e.Value)
		}
		if err != nil {
			return fmt.Errorf("%s: %s: %w", at, e.Key, err)
		}
		if o.isGiven(e.Key) || slices.Contains(left, e.Key) {
			continue
		}
		set = append(set, func() error {
			if err := o.c.Set(e.Key, value); err != nil {
				return fmt.Errorf("%s: %s: %s: %w", at, e.Key, strconv.Quote(value), err)
			}
			o.from[e.Key] = at
			return nil
		})
	}
	for _, f := range set {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// onlyOverrides returns an error if a value of --config in a file names another file.
func onlyOverrides(value any) error {
	values, _ := list(value)
	if slices.ContainsFunc(values, func(v string) bool { return !strings.Contains(v, "=") }) {
		return errors.New("it must be KEY=VALUE; a file with options cannot name another one")
	}
	return nil
}

// isGiven reports whether the command line or a variable sets an option. A --config that only names the file does
// not count.
func (o *Options) isGiven(name string) bool {
	if name == optionOverride {
		return len(o.c.StringSlice(name)) > 0
	}
	return IsSet(o.c, name) || o.variables[name] != "" && os.Getenv(o.variables[name]) != ""
}

// names returns the options that may be in the file.
func (o *Options) names() (names []string) {
	for _, flag := range InFile(o.c.Command) {
		names = append(names, flag.Names()[0])
	}
	return names
}

// InFile returns the options of a command that may be in its file with options. It returns nil if the command has no
// such file.
func InFile(c *cli.Command) (flags []cli.Flag) {
	if find(c.Flags, optionFile) == nil {
		return nil
	}
	for _, flag := range c.Flags {
		visible, ok := flag.(cli.VisibleFlag)
		if ok && visible.IsVisible() && !slices.Contains([]string{optionFile, optionCheck, optionPrint, "help"}, flag.Names()[0]) {
			flags = append(flags, flag)
		}
	}
	return flags
}

func (o *Options) flagNamed(name string) cli.Flag {
	if !slices.Contains(o.names(), name) {
		return nil
	}
	for _, flag := range o.c.Command.Flags {
		if flag.Names()[0] == name {
			return flag
		}
	}
	return nil
}

// unknown returns the error for a key that is not an option.
func (o *Options) unknown(at, key string) error {
	names := o.names()
	if meant := similar(key, names); meant != "" {
		return fmt.Errorf("%s: unknown key %s; did you mean %s?", at, strconv.Quote(key), meant)
	}
	slices.Sort(names)
	return fmt.Errorf("%s: unknown key %s; allowed are the options of %s: %s", at, strconv.Quote(key), o.c.Command.HelpName, strings.Join(names, ", "))
}

// kindOf returns the value whose type determines the kind of an option: the flag, or the value of a GenericFlag.
func kindOf(flag cli.Flag) any {
	if f, ok := flag.(*cli.GenericFlag); ok {
		return f.Value
	}
	return flag
}

// Allowed describes the values that an option accepts in a file.
func Allowed(flag cli.Flag) string {
	switch kindOf(flag).(type) {
	case *cli.BoolFlag:
		return "true or false"
	case *Number[int64]:
		return "a number without a fraction"
	case *Number[time.Duration]:
		return `a duration in quotes, such as "90s", "30m" or "720h"`
	case *cli.StringSliceFlag:
		return "a string or an array of strings"
	default:
		return "a string"
	}
}

// text returns the value of a key in the form of the command line. The values of an option that may be
// repeated are serialized into one text, which the library does not split at commas.
func text(flag cli.Flag, value any) (text string, err error) {
	ok := false
	switch kindOf(flag).(type) {
	case *cli.BoolFlag:
		var v bool
		v, ok = value.(bool)
		text = strconv.FormatBool(v)
	case *Number[int64]:
		var v int64
		v, ok = value.(int64)
		text = strconv.FormatInt(v, 10)
	case *cli.StringSliceFlag:
		var values []string
		values, ok = list(value)
		text = cli.NewStringSlice(values...).Serialize()
	default:
		text, ok = value.(string)
	}
	if !ok {
		return "", fmt.Errorf("it must be %s", Allowed(flag))
	}
	return text, nil
}

// list returns a string, or an array of strings, as a list.
func list(value any) (values []string, ok bool) {
	elements, ok := value.([]any)
	if !ok {
		elements = []any{value}
	}
	for _, element := range elements {
		text, isText := element.(string)
		if !isText {
			return nil, false
		}
		values = append(values, text)
	}
	return values, true
}

// namedOption finds an option in an error.
var namedOption = regexp.MustCompile(`--([a-z0-9-]+)`)

// Explain adds to an error which line of the file set the option that the error names. Errors about options on the
// command line are returned as they are.
func (o *Options) Explain(err error) error {
	if err == nil {
		return nil
	}
	for _, m := range namedOption.FindAllStringSubmatch(err.Error(), -1) {
		if at := o.from[m[1]]; at != "" {
			return WithAdvice(err, "--"+m[1]+" comes from "+at)
		}
	}
	return err
}

// Print prints the options if --print-config is given. In that case done is true, and the command
// must end.
func (o *Options) Print(w io.Writer) (done bool, err error) {
	if !o.c.Bool(optionPrint) {
		return false, nil
	}
	_, err = io.WriteString(w, o.text())
	return true, err
}

// IsCheck reports whether --check-config is given.
func (o *Options) IsCheck() bool { return o.c.Bool(optionCheck) }

// Checked must be called after the options were checked. done is true if --check-config is given;
// then the command must end.
func (o *Options) Checked(w io.Writer) (done bool, err error) {
	switch {
	case !o.c.Bool(optionCheck):
		return false, nil
	case o.path == "":
		_, err = fmt.Fprintln(w, "the options are valid; no file with options exists")
	default:
		_, err = fmt.Fprintf(w, "the options are valid, including those of %s\n", o.path)
	}
	return true, err
}

// credentials matches the part of a URL that has a name or a password before the host.
var credentials = regexp.MustCompile(`://[^/\s"]*@`)

// text returns the options as a file that has the same effect. An option without a value, with its
// default, or with a password is written as a comment.
func (o *Options) text() string {
	var b strings.Builder
	for _, name := range o.names() {
		flag := o.flagNamed(name)
		value := o.value(flag, name)
		switch {
		case o.isGiven(name) && credentials.MatchString(value):
			fmt.Fprintf(&b, "# %s is set by %s; it has a password, which is not printed\n", name, o.source(flag, name))
		case o.isGiven(name) && !IsSet(o.c, name):
			fmt.Fprintf(&b, "# %s is set by %s\n", name, o.variables[name]) // its value may be a secret
		case o.isGiven(name):
			fmt.Fprintf(&b, "%s = %s # %s\n", name, value, o.source(flag, name))
		case value == `""` || value == "[]":
			fmt.Fprintf(&b, "# %s is not set\n", name)
		default:
			fmt.Fprintf(&b, "# %s = %s\n", name, value)
		}
	}
	return b.String()
}

// source describes the origin of an option's value.
func (o *Options) source(flag cli.Flag, name string) string {
	if at := o.from[name]; at != "" {
		return at
	}
	variables := []string{o.variables[name]}
	if f, ok := flag.(cli.DocGenerationFlag); ok {
		variables = append(variables, f.GetEnvVars()...)
	}
	for _, variable := range variables {
		if value := os.Getenv(variable); variable != "" && value != "" && (!IsSet(o.c, name) || value == fmt.Sprint(o.c.Value(name))) {
			return variable
		}
	}
	return "command line"
}

// value returns the value of an option in TOML.
func (o *Options) value(flag cli.Flag, name string) string {
	switch kindOf(flag).(type) {
	case *cli.BoolFlag:
		return strconv.FormatBool(o.c.Bool(name))
	case *Number[int64]:
		return fmt.Sprint(o.c.Value(name))
	case *cli.StringSliceFlag:
		quoted := make([]string, 0)
		for _, v := range o.c.StringSlice(name) {
			quoted = append(quoted, quoteTOML(v))
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	return quoteTOML(fmt.Sprint(o.c.Value(name)))
}

// quoteTOML returns a text as a TOML string.
func quoteTOML(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}
