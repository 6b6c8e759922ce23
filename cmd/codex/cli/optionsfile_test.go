//go:build linux

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"github.com/urfave/cli/v2"
)

// commandsWithFile are the commands whose options can be in a file, with the variables
// that the flag library does not know.
var commandsWithFile = map[string]map[string]string{
	"exec-server": {},
	"rendezvous":  {"nats": "CODEX_RENDEZVOUS_NATS_URL"},
}

// sample has values for options of one type: two valid ones, as in TOML and on the command line,
// and invalid ones in TOML. It also has the error's text about permitted values.
type sample struct {
	file, printed  string // in the file, and as --print-config prints it
	argument, said string // on the command line, and as printed
	wrong          []string
	allowed        string
}

// sampleOf returns values for an option. The values need not be useful: --print-config does not use
// them.
func sampleOf(t *testing.T, flag cli.Flag) sample {
	t.Helper()
	var kind any = flag
	if f, ok := flag.(*cli.GenericFlag); ok {
		kind = f.Value
	}
	switch kind.(type) {
	case *cli.BoolFlag:
		return sample{"true", "true", "=false", "false", []string{`"true"`, "1", "[true]"}, "true or false"}
	case *cmdutil.Number[int64]:
		value, other := countOf(flag)
		return sample{value, value, "=" + other, other, []string{`"7"`, "1.5", "true", "[7]", "7.0"}, "a number without a fraction"}
	case *cmdutil.Number[time.Duration]:
		return sample{`"90m"`, `"1h30m0s"`, "=5s", `"5s"`, []string{"90", "1.5", "true", `["90s"]`, `"90"`, `"soon"`}, "a duration"}
	case *cli.StringSliceFlag:
		if flag.Names()[0] == "config" {
			return sample{`["a=b,c", "d=1"]`, `["a=b,c", "d=1"]`, "=d=2", `["d=2"]`, []string{"1", "true", "[1]", `["a=1", true]`}, "a string or an array of strings"}
		}
		return sample{`["a,b", "c"]`, `["a,b", "c"]`, "=d", `["d"]`, []string{"1", "true", "[1]", `["a", true]`}, "a string or an array of strings"}
	case *cmdutil.Limit:
		for _, value := range []string{"7", "7m"} {
			if flag.(*cli.GenericFlag).Value.Set(value) == nil {
				return sample{`"` + value + `"`, `"` + value + `"`, "=" + value, `"` + value + `"`, []string{"1", "1.5", "true", `["a"]`}, "a string"}
			}
		}
	case *cli.StringFlag:
		return sample{`"a \"b\""`, `"a \"b\""`, "=c", `"c"`, []string{"1", "1.5", "true", `["a"]`, "1979-05-27T07:32:00Z"}, "a string"}
	}
	t.Fatalf("--%s has a type that no test knows: %T", flag.Names()[0], flag)
	return sample{}
}

// countOf returns two numbers that an option accepts.
func countOf(flag cli.Flag) (value, other string) {
	n := flag.(*cli.GenericFlag).Value.(*cmdutil.Number[int64])
	return strconv.FormatInt(n.Least+1, 10), strconv.FormatInt(n.Least, 10)
}

// optionsIn runs a command with a file of options, which has one line, and returns what it prints.
func optionsIn(t *testing.T, command, line string, args ...string) (path, out, errs string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "options.toml")
	if err := os.WriteFile(path, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	Main(append([]string{"codex", command, "--config-file", path}, args...), strings.NewReader(""), &stdout, &stderr)
	return path, stdout.String(), stderr.String()
}

// eachOption runs a test for each option of the program that can be in a file.
func eachOption(t *testing.T, test func(t *testing.T, command string, flag cli.Flag)) {
	t.Setenv("CODEX_HOME", t.TempDir())
	tried := 0
	for _, command := range newApp(cmdutil.Streams{}).Commands {
		if commandsWithFile[command.Name] == nil {
			if flagNamed(command.Flags, "config-file") != nil {
				t.Errorf("codex %s reads a file with options, and is not tried", command.Name)
			}
			continue
		}
		for _, flag := range command.Flags {
			visible, ok := flag.(cli.VisibleFlag)
			if ok && visible.IsVisible() && !slices.Contains([]string{"config-file", "check-config", "print-config", "help"}, flag.Names()[0]) {
				tried++
				t.Run(command.Name+"/"+flag.Names()[0], func(t *testing.T) { test(t, command.Name, flag) })
			}
		}
	}
	if tried < 60 {
		t.Errorf("only %d options were tried", tried)
	}
}

// printedOption returns the line of an option in the output of --print-config.
func printedOption(text, name string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, name+" = ") || strings.HasPrefix(line, "# "+name+" ") {
			return strings.TrimSuffix(line, "\n")
		}
	}
	return ""
}

// TestEveryOptionInAFile: each option can be given in the file. Its variable takes precedence
// over the file, and the command line over both.
func TestEveryOptionInAFile(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	eachOption(t, func(t *testing.T, command string, flag cli.Flag) {
		name, s := flag.Names()[0], sampleOf(t, flag)
		line := name + " = " + s.file
		path, out, errs := optionsIn(t, command, line, "--print-config")
		if want := fmt.Sprintf("%s = %s # %s:1", name, s.printed, path); printedOption(out, name) != want {
			t.Errorf("in the file: %q, want %q: %s", printedOption(out, name), want, errs)
		}
		_, again, errs := optionsIn(t, command, out, "--print-config")
		if got, _, _ := strings.Cut(printedOption(again, name), " # "); got != name+" = "+s.printed {
			t.Errorf("what is printed means %q: %s", got, errs)
		}
		given := fmt.Sprintf("%s = %s # command line", name, s.said)
		if _, out, errs := optionsIn(t, command, line, "--"+name+s.argument, "--print-config"); printedOption(out, name) != given {
			t.Errorf("with the option: %q, want %q: %s", printedOption(out, name), given, errs)
		}
		var variables []string
		if f, ok := flag.(cli.DocGenerationFlag); ok {
			variables = f.GetEnvVars()
		}
		if v := commandsWithFile[command][name]; v != "" {
			variables = append(variables, v)
		}
		for _, v := range variables {
			t.Setenv(v, strings.TrimPrefix(s.argument, "="))
			_, out, errs := optionsIn(t, command, line, "--print-config")
			if got := printedOption(out, name); got != fmt.Sprintf("%s = %s # %s", name, s.said, v) && got != fmt.Sprintf("# %s is set by %s", name, v) {
				t.Errorf("with %s: %q: %s", v, got, errs)
			}
			t.Setenv(v, strings.Trim(s.file, `"`))
			if _, out, errs := optionsIn(t, command, "", "--"+name+s.argument, "--print-config"); printedOption(out, name) != given {
				t.Errorf("with the option and %s: %q: %s", v, printedOption(out, name), errs)
			}
		}
	})
}

// TestWrongValuesOfEveryOption: a value of another type, and a name that is misspelled, are
// errors with the line, the name and what is allowed.
func TestWrongValuesOfEveryOption(t *testing.T) {
	eachOption(t, func(t *testing.T, command string, flag cli.Flag) {
		name, s := flag.Names()[0], sampleOf(t, flag)
		for _, value := range s.wrong {
			path, out, errs := optionsIn(t, command, "\n"+name+" = "+value, "--check-config")
			if !strings.Contains(errs, path+":2: "+name+": ") || !strings.Contains(errs, s.allowed) || out != "" {
				t.Errorf(`%s: got stdout %s, stderr %s; want stderr with %q, stderr with %q, stdout ""`, value, out, errs, path+":2: "+name+": ", s.allowed)
			}
		}
		for _, wrong := range []string{name + "x", strings.Replace(name, "-", "_", 1)} {
			path, out, errs := optionsIn(t, command, "\n"+wrong+" = "+s.file, "--check-config")
			misspelled := "unknown key " + strconv.Quote(wrong) + "; did you mean "
			if wrong != name && (!strings.Contains(errs, path+":2: "+misspelled) || out != "") {
				t.Errorf(`%s: got stdout %s, stderr %s; want stderr with %q, stdout ""`, wrong, out, errs, path+":2: "+misspelled)
			}
		}
		if _, _, errs := optionsIn(t, command, name+" = "+s.file+"\n"+name+" = "+s.file, "--check-config"); !strings.Contains(errs, ":2:") {
			t.Errorf("twice: %s", errs)
		}
	})
}

// withPassword are values for an option that takes a URL. Each contains the password hunter2.
var withPassword = []string{
	"nats://someone:hunter2@127.0.0.1:1", "https://hunter2@host.test/x", "a=wss://x:hunter2@h", "nats://a.test,nats://u:hunter2@b.test",
}

// takingURLs are options whose value is a URL that may contain a password, or is treated like one.
var takingURLs = []string{"remote", "nats", "public-url"}

// TestPasswordsAreNotPrinted: a URL with a password, in the file, on the command line or in a
// variable, is not printed, for any option. Errors about a URL do not show the password either.
func TestPasswordsAreNotPrinted(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	eachOption(t, func(t *testing.T, command string, flag cli.Flag) {
		name := flag.Names()[0]
		switch flag.(type) {
		case *cli.StringFlag, *cli.StringSliceFlag:
		default:
			return
		}
		for _, url := range withPassword {
			if name == "config" {
				url = "a=" + url // without =, the value would name a file
			}
			line := name + ` = "` + url + `"`
			check := func(source, text string, args ...string) {
				path, out, errs := optionsIn(t, command, text, append(args, "--print-config")...)
				want := "# " + name + " is set by " + strings.Replace(source, "FILE", path+":1", 1) + "; it has a password, which is not printed"
				if strings.Contains(out+errs, "hunter2") || printedOption(out, name) != want {
					t.Errorf(`%s: got printedOption(out, name) %q, stderr %s; want out+errs without "hunter2", printedOption(out, name) %q`, source, printedOption(out, name), errs, want)
				}
			}
			check("FILE", line)
			check("command line", "", "--"+name+"="+url)
			if v := commandsWithFile[command][name]; v != "" {
				t.Setenv(v, url)
				if _, out, errs := optionsIn(t, command, "", "--print-config"); strings.Contains(out+errs, "hunter2") {
					t.Errorf(`%s: got stdout %s, stderr %s; want out+errs without "hunter2"`, v, out, errs)
				}
				t.Setenv(v, "")
			}
			if _, out, errs := optionsIn(t, command, line, "--check-config"); slices.Contains(takingURLs, name) && strings.Contains(out+errs, "hunter2") {
				t.Errorf("--check-config prints %s%s", out, errs)
			}
		}
	})
}

// TestConfigNamesTheFileOfEachCommand: --config FILE names the file of each command that has
// one, and two files are an error.
func TestConfigNamesTheFileOfEachCommand(t *testing.T) {
	t.Setenv("CODEX_HOME", t.TempDir())
	path := filepath.Join(t.TempDir(), "options.toml")
	if err := os.WriteFile(path, []byte("log-format = 'json'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for command := range commandsWithFile {
		for _, tt := range []struct {
			args []string
			want string // expected on stderr; empty: the file is read
		}{
			{[]string{"--config", path}, ""},
			{[]string{"--config=" + path}, ""},
			{[]string{"--config", path, "--config", path}, ""},
			{[]string{"--config", path, "--config", path + "x"}, "give one"},
			{[]string{"--config", path, "--config-file", path + "x"}, "give one"},
			{[]string{"--config", ""}, " is empty; leave it out or name a file"},
			{[]string{"--config", path + "x"}, "open " + path + "x"},
		} {
			var out, errs strings.Builder
			Main(append([]string{"codex", command, "--print-config"}, tt.args...), strings.NewReader(""), &out, &errs)
			read := printedOption(out.String(), "log-format") == fmt.Sprintf("log-format = \"json\" # %s:1", path)
			if read != (tt.want == "") || !strings.Contains(errs.String(), tt.want) {
				t.Errorf("codex %s %q: %s%s", command, tt.args, printedOption(out.String(), "log-format"), errs.String())
			}
		}
		var out, errs strings.Builder
		Main([]string{"codex", "--config", path, command, "--print-config"}, strings.NewReader(""), &out, &errs)
		if out.Len() > 0 || !strings.Contains(errs.String(), "--config before "+command+" must be KEY=VALUE") {
			t.Errorf("before codex %s: %s%s", command, out.String(), errs.String())
		}
	}
}

// TestManPagesOfFiles: the page of each file with options has exactly the keys that the command accepts, and an example
// that the command accepts.
func TestManPagesOfFiles(t *testing.T) {
	t.Setenv("CODEX_HOME", t.TempDir())
	for command := range commandsWithFile {
		_, printed, errs := optionsIn(t, command, "", "--print-config")
		var want, got []string
		for line := range strings.Lines(printed) {
			want = append(want, strings.Fields(strings.TrimPrefix(line, "# "))[0])
		}
		page := pageOf(t, command+".toml")
		_, options, _ := strings.Cut(page, ".SH \"OPTIONS\"\n")
		options, _, _ = strings.Cut(options, ".SH")
		for _, item := range strings.Split(options, ".TP\n")[1:] {
			name, text, _ := strings.Cut(item, "\n")
			got = append(got, strings.ReplaceAll(name, `\-`, "-"))
			if strings.HasPrefix(text, ". The value") {
				t.Errorf("%s: the page has no text about %s", command, name)
			}
		}
		if len(want) < 10 || !slices.Equal(got, want) {
			t.Errorf("%s: the page has the keys %q, want %q: %s", command, got, want, errs)
		}
		_, example, _ := strings.Cut(page, ".nf\n")
		example, _, _ = strings.Cut(example, ".fi")
		if path, out, errs := optionsIn(t, command, strings.ReplaceAll(example, `\-`, "-"), "--print-config"); !strings.Contains(out, `log-level = "warn" # `+path+":2") {
			t.Errorf("%s: the example of the page sets %s%s", command, printedOption(out, "log-level"), errs)
		}
	}
}
