package execenv

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"codex.internal/pkg/relay/noise"
)

// TestClientIdentity: a client has the same key in each run, and different keys for different
// environments and registries. Clients that start at the same time get the same key.
func TestClientIdentity(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home", "client-keys")
	key := func(url, environment string) noise.PublicKey {
		t.Helper()
		id, err := clientIdentity(dir, Registry{URL: url, EnvironmentID: environment})
		if err != nil {
			t.Fatal(err)
		}
		return id.PublicKey()
	}
	var wg sync.WaitGroup
	keys := make([]noise.PublicKey, 8)
	for i := range keys {
		wg.Go(func() { keys[i] = key("https://a.test", "box") })
	}
	wg.Wait()
	for _, k := range append(keys, key(" https://a.test/", " box ")) {
		if k != keys[0] {
			t.Error("one client has two keys for one environment")
		}
	}
	if key("https://a.test", "other") == keys[0] || key("https://b.test", "box") == keys[0] {
		t.Error("two environments have one key")
	}
	files, err := filepath.Glob(dir + "/*")
	if err != nil || len(files) != 3 {
		t.Fatalf("got files %q, error %v; want no error, len(files) 3", files, err)
	}
	ephemeral, err := clientIdentity("", Registry{URL: "https://a.test", EnvironmentID: "box"})
	if err != nil || ephemeral.PublicKey() == keys[0] {
		t.Errorf("without a directory: %v", err)
	}
	unusable := filepath.Join(files[0], "below-a-file")
	log := slog.New(slog.DiscardHandler)
	if _, err := (&noiseOpener{keys: unusable}).identity(Registry{}, log); err == nil {
		t.Error("a client has a new key each time, and is not told")
	}
	if id, err := (&noiseOpener{keys: unusable, optional: true}).identity(Registry{}, log); err != nil || id == nil {
		t.Errorf("a client that needs no key has none: %v", err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for _, path := range files {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got info.Mode() %v, error %v; want no error, info.Mode().Perm() 0o600", path, info.Mode(), err)
		}
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(want string) {
		t.Helper()
		if _, err := clientIdentity(dir, Registry{URL: "https://a.test", EnvironmentID: "box"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	refused("chmod 600")
	for _, path := range files {
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("codex-client-key-1 secretsecret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refused("this is not a key of a client of rendezvous services")
}
