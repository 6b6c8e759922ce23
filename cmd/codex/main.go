// Command codex is the exec-server, its client and, depending on the name by which it is called,
// its helpers.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"codex.internal/cmd/codex/cli"
)

// applyPatchArg selects a tool that only Codex CLI has.
const applyPatchArg = "--codex-run-as-apply-patch"

func main() { os.Exit(run(os.Args)) }

// run determines from the base name of argv[0] which program it must run.
func run(args []string) int {
	name := ""
	if len(args) > 0 {
		name = filepath.Base(args[0])
	}
	switch {
	case name == "codex-fs", len(args) > 1 && args[1] == "--codex-run-as-fs-helper":
		return fsHelper()
	case strings.TrimPrefix(name, ".") == "codex-linux-sandbox":
		return linuxSandbox(args[1:])
	case name == "apply_patch", name == "applypatch", name == "codex-execve-wrapper":
		return refuse("%s: this program is not part of this codex; it has codex-fs and codex-linux-sandbox", name)
	case len(args) > 1 && args[1] == applyPatchArg:
		if len(args) < 3 || !utf8.ValidString(args[2]) {
			return refuse("%s requires a UTF-8 PATCH argument.", applyPatchArg)
		}
		return refuse("%s: the tool that applies patches is not part of this codex", applyPatchArg)
	case len(args) > 1:
		if code, ok := serverRole(args[1], args[2:]); ok {
			return code
		}
	}
	return cli.Main(args, os.Stdin, os.Stdout, os.Stderr)
}

// refuse prints an error about a feature that is not available.
func refuse(format string, args ...any) int {
	fmt.Fprintf(os.Stderr, "Error: "+format+"\n", args...)
	return 1
}
