//go:build unix

package egress

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestBundlesOfKilledServers: RemoveBundles removes the bundles of a killed server, and nothing
// else.
func TestBundlesOfKilledServers(t *testing.T) {
	top := t.TempDir()
	dir, outside := filepath.Join(top, "proxy"), filepath.Join(top, "outside")
	if n, err := RemoveBundles(dir); n != 0 || err != nil {
		t.Errorf("without the directory: %d, %v", n, err)
	}
	bundleIn := func(killed bool) string {
		b, err := newBundle(dir, nil, []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.close)
		if killed { // the kernel closes the descriptors of a killed program
			_ = b.locked.Close()
			_ = b.root.Close()
		}
		return filepath.Base(filepath.Dir(b.path))
	}
	running, killed, shared := bundleIn(false), bundleIn(true), bundleIn(true)
	for _, path := range []string{outside, dir + "/codex-proxy-new", dir + "/other"} {
		must(t, os.Mkdir(path, 0o700))
	}
	for _, path := range []string{outside + "/" + bundleName, dir + "/other/" + bundleName, dir + "/" + shared + "/more", dir + "/codex-proxy-file"} {
		must(t, os.WriteFile(path, nil, 0o600))
	}
	must(t, os.Symlink(outside, dir+"/codex-proxy-link"))
	must(t, os.Symlink("other", dir+"/codex-proxy-inner"))
	kept := []string{"codex-proxy-file", "codex-proxy-inner", "codex-proxy-link", "codex-proxy-new", "other", running, shared}
	if os.Geteuid() == 0 {
		foreign := bundleIn(true)
		must(t, os.Chown(filepath.Join(dir, foreign), 1, 1))
		kept = append(kept, foreign)
	}
	if n, err := RemoveBundles(dir); n != 1 || err != nil {
		t.Errorf("%d removed, %v; want 1, %s", n, err, killed)
	}
	var left []string
	list, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range list {
		left = append(left, e.Name())
	}
	slices.Sort(kept)
	if !slices.Equal(left, kept) {
		t.Errorf("left: %q, want %q", left, kept)
	}
	for _, path := range []string{outside + "/" + bundleName, dir + "/other/" + bundleName, dir + "/" + shared + "/more", dir + "/" + running + "/" + bundleName} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("removed: %v", err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
