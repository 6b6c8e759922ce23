package codexfs

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"codex.internal/pkg/host/files"
)

// TestDeniedPathsAreRefused: the helper reads nothing below a mask, even if the kernel shows
// files there. It reads files of other mounts below the mask.
func TestDeniedPathsAreRefused(t *testing.T) {
	dir := tree(t)
	for _, name := range []string{dir + "/d/shown", dir + "/other"} {
		if err := os.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{dir + "/d/shown/f", dir + "/other/f", dir + "/dd"} {
		if err := os.WriteFile(name, []byte("abc"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { files.Deny(nil) })
	if !denyMasked("+" + strconv.Quote(dir) + "\n-" + strconv.Quote(dir+"/d") + "\n+" + strconv.Quote(dir+"/d/shown") + "\n") {
		t.Fatal("the list is invalid")
	}
	for name, denied := range map[string]bool{
		"/d/f": true, "/l": true, "/d/../d/f": true, "/d/shown/f": false, "/d/shown/../f": true, "/other/f": false, "/dd": false,
	} {
		for _, request := range []string{
			`{"operation":"fs/readFile","params":{"path":"` + dir + name + `"}}`,
			`{"operation":"fs/open","params":{"handleId":"h","path":"` + dir + name + `"}}` + "\n" + closeLine,
		} {
			stdout, stderr, _ := run(request)
			if got := strings.Contains(stdout, "Permission denied"); got != denied {
				t.Errorf("%s: denied %v, want %v: %s%s", request, got, denied, stdout, stderr)
			}
		}
	}
	if stdout, _, _ := run(`{"operation":"fs/copy","params":{"sourcePath":"` + dir + `/d/f","destinationPath":"` + dir + `/copy","recursive":false}}`); !strings.Contains(stdout, "Permission denied") {
		t.Errorf("a denied file was copied: %s", stdout)
	}
	for _, list := range []string{"x", "-/a\n", "?\"/a\"\n", "-\n"} {
		if denyMasked(list) {
			t.Errorf("%q was accepted", list)
		}
	}
}
