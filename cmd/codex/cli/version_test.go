package cli

import (
	"encoding/json"
	"io"
	"runtime"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	t.Setenv("CODEX_HOME", t.TempDir())
	run := func(args ...string) string {
		t.Helper()
		var out strings.Builder
		if code := Main(append([]string{"codex"}, args...), strings.NewReader(""), &out, io.Discard); code != 0 {
			t.Errorf("%q exits with %d", args, code)
		}
		return out.String()
	}
	line := run("--version")
	if !strings.HasPrefix(line, "codex ") || run("-V") != line || run("version") != line {
		t.Errorf(`got %q, %q; want line beginning with "codex ", %q`, run("-V"), run("version"), line)
	}
	var b built
	if err := json.Unmarshal([]byte(run("version", "--json")), &b); err != nil || "codex "+b.Version+"\n" != line || b.Go != runtime.Version() ||
		b.OS != runtime.GOOS || b.Arch != runtime.GOARCH {
		t.Errorf("got b %+v, error %v; want no error, \"codex \"+b.Version+\"\\n\": %v, b.Go runtime.Version(), b.OS %v, b.Arch %v", b, err, line, runtime.GOOS, runtime.GOARCH)
	}
}
