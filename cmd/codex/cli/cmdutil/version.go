package cmdutil

import (
	"runtime/debug"
	"strings"
)

// release is the version of a release. scripts/release makes the linker set it.
var release string

// UserAgent returns the User-Agent of a command of this program, with the version.
func UserAgent(command string) string { return command + "/" + Version() }

// Version returns the version from the build: that of a release or of the module, or the commit.
func Version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := strings.TrimPrefix(info.Main.Version, "v")
	if v != "" && v != "(devel)" {
		return v
	}
	revision, modified := "", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				modified = "+changes"
			}
		}
	}
	if revision == "" {
		return "devel"
	}
	return "devel-" + revision + modified
}
