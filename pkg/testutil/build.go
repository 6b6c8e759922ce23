package testutil

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Build builds the program of a package with the options of scripts/lib.sh, so that scripts/test
// compiles no package twice. source is the argument for go build, in the working directory; tags
// are additional build tags.
func Build(program, source string, tags ...string) error {
	tags = append([]string{"urfave_cli_no_docs"}, tags...)
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", strings.Join(tags, ","), "-ldflags", "-s -w", "-o", program, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", source, err, out)
	}
	return nil
}

// WriteProgram writes an executable file with mode 0755. While the file is open, this program
// starts no process: a process that another test starts at that time would briefly inherit the open
// file, and the file could not be executed meanwhile (ETXTBSY).
func WriteProgram(name string, text []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(name, text, 0o755)
}
