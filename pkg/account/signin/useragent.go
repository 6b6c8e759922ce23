package signin

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// userAgent returns the User-Agent of this program: ORIGINATOR/VERSION (SYSTEM; ARCHITECTURE)
// TERMINAL.
func userAgent(originator, version string, getenv func(string) string) string {
	arch := runtime.GOARCH
	switch arch {
	case "amd64":
		arch = "x86_64"
	case "arm64":
		if runtime.GOOS == "linux" {
			arch = "aarch64"
		}
	}
	text := fmt.Sprintf("%s/%s (%s; %s) %s", originator, version, system(), arch, terminal(getenv))
	return strings.Map(printable, text)
}

// printable replaces characters that a header cannot contain.
func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return '_'
	}
	return r
}

// system returns the operating system's name and, where it is easily determined, its version, with
// three parts.
func system() string {
	switch runtime.GOOS {
	case "darwin":
		return "Mac OS"
	case "windows":
		return "Windows"
	case "linux":
	default:
		return runtime.GOOS
	}
	f, err := os.Open("/etc/os-release")
	if err != nil {
		return "Linux"
	}
	defer f.Close()
	values := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "=")
		values[name] = strings.Trim(value, `"'`)
	}
	return release(values["NAME"], values["VERSION_ID"])
}

// release joins a distribution's name and version. For example, Debian GNU/Linux and 12 become
// Debian 12.0.0.
func release(name, version string) string {
	name, _, _ = strings.Cut(name, " ")
	if name == "" {
		name = "Linux"
	}
	if version == "" {
		return name
	}
	for strings.Count(version, ".") < 2 {
		version += ".0"
	}
	return name + " " + version
}

// terminal returns the terminal's name, if known.
func terminal(getenv func(string) string) string {
	name := getenv("TERM_PROGRAM")
	switch {
	case name != "" && getenv("TERM_PROGRAM_VERSION") != "":
		return name + "/" + getenv("TERM_PROGRAM_VERSION")
	case name != "":
		return name
	case getenv("TERM") != "":
		return getenv("TERM")
	default:
		return "unknown"
	}
}
