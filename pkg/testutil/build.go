package testutil

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Build builds the program of a package as scripts/lib.sh does, so that scripts/test compiles no package
// twice. source is the package as go build takes it, in the working directory; tags are more build tags.
func Build(program, source string, tags ...string) error {
	tags = append([]string{"urfave_cli_no_docs"}, tags...)
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", strings.Join(tags, ","), "-ldflags", "-s -w", "-o", program, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", source, err, out)
	}
	return nil
}

// WriteProgram writes a file that is to be executed, mode 0755. While it is open no process is started: one
// that another test starts at that time would have it open for writing for a moment, in which it
// cannot be executed (ETXTBSY).
func WriteProgram(name string, text []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(name, text, 0o755)
}
