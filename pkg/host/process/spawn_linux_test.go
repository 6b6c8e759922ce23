package process

import (
	"os"
	"runtime"
	"syscall"
	"testing"
)

// TestDirectoryWithoutPermissionIsNamed: if a start fails because the user may not enter the
// working directory, the error does not blame the program.
func TestDirectoryWithoutPermissionIsNamed(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(dir, 0o700) }()
	if os.Geteuid() == 0 {
		// Root may enter every directory, so this thread temporarily gives up that right.
		const nobody = 65534
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0); errno != 0 {
			t.Fatal(errno)
		}
		defer func() { _, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, 0, 0, 0) }()
	}
	err := (&Spec{Dir: dir}).explain("/bin/true", syscall.EACCES)
	if want := "Permission denied (os error 13): working directory " + dir; err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if err := (&Spec{Dir: "/"}).explain("/etc/passwd", syscall.EACCES); err.Error() != "Permission denied (os error 13): program /etc/passwd" {
		t.Error(err)
	}
}
