package files

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// TestRenameToAnotherFileSystem: Rename refuses, its error names the remedy, and the source is
// unchanged.
func TestRenameToAnotherFileSystem(t *testing.T) {
	shm, err := os.MkdirTemp("/dev/shm", "codex")
	testutil.Need(t, "/dev/shm", err, fs.ErrNotExist, fs.ErrPermission)
	defer os.RemoveAll(shm)
	name := t.TempDir() + "/f"
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var here, there unix.Stat_t
	if err := errors.Join(unix.Stat(name, &here), unix.Stat(shm, &there)); err != nil {
		t.Fatal(err)
	}
	if here.Dev == there.Dev {
		t.Skip("/dev/shm is the same file system as the temporary directory")
	}
	for _, overwrite := range []bool{false, true} {
		err := Rename(name, shm+"/f", overwrite)
		if !errors.Is(err, ErrOtherFileSystem) || !strings.Contains(err.Error(), "fs/copy") || Classify(err) != Invalid {
			t.Error(err)
		}
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
}

// TestRenameNeedsBothDirectories: the error names the directory that is not writable.
func TestRenameNeedsBothDirectories(t *testing.T) {
	dir := renameTree(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.Mkdir(dir+"/open", 0o755), os.Mkdir(dir+"/closed", 0o755),
		os.WriteFile(dir+"/open/f", nil, 0o600), os.WriteFile(dir+"/closed/f", nil, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir+"/closed", 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir+"/closed", 0o755) })
	if os.Geteuid() == 0 {
		if err := os.Chown(dir+"/closed", 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	withoutCapabilities(t, func() {
		if err := Rename(dir+"/open/f", dir+"/open/g", false); err != nil {
			t.Error(err)
			return
		}
		for _, tt := range []struct{ source, destination, named string }{
			{"/closed/f", "/open/new", "/closed/f"},
			{"/open/g", "/closed/new", "/closed/new"},
		} {
			err := Rename(dir+tt.source, dir+tt.destination, false)
			if want := "Permission denied (os error 13): " + dir + tt.named; err == nil || err.Error() != want {
				t.Errorf("%s to %s: %v, want %s", tt.source, tt.destination, err, want)
			}
		}
	})
}

// withoutCapabilities runs f on a thread without capabilities, and waits for it. With capabilities,
// root could do everything.
func withoutCapabilities(t *testing.T, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		header, none := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
		if err := unix.Capset(header, &none[0]); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}
