package files

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRenameToAnotherFileSystem refuses, names the remedy, and leaves the source.
func TestRenameToAnotherFileSystem(t *testing.T) {
	shm, err := os.MkdirTemp("/dev/shm", "codex")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(shm)
	name := t.TempDir() + "/f"
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var here, there unix.Stat_t
	if unix.Stat(name, &here) != nil || unix.Stat(shm, &there) != nil || here.Dev == there.Dev {
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

// TestRenameNeedsBothDirectories names the directory that may not be written to.
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
	if os.Geteuid() == 0 {
		// Root may do everything; this thread gives that up meanwhile.
		const nobody = 65534
		for _, name := range []string{"/open", "/open/f"} {
			if err := os.Chown(dir+name, nobody, nobody); err != nil {
				t.Fatal(err)
			}
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer func() { _, _, _ = syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), 0, ^uintptr(0)) }()
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), nobody, ^uintptr(0)); errno != 0 {
			t.Fatal(errno)
		}
	} else if err := os.Chmod(dir+"/closed", 0o555); err != nil {
		t.Fatal(err)
	}
	if err := Rename(dir+"/open/f", dir+"/open/g", false); err != nil {
		if os.IsPermission(err) || errors.Is(err, unix.EACCES) {
			t.Skip("the temporary directory is not everybody's: ", err)
		}
		t.Fatal(err)
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
}
