package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// Testbed is a directory outside of /tmp. It contains the programs, which every user can start, and
// directories of one user. Tests use it to act as an ordinary user when they run as root. Policies
// that deny /tmp leave it readable.
type Testbed struct {
	T    *testing.T
	Dir  string
	User *syscall.Credential // nil: the test's own user
}

// NewTestbed creates a testbed for a user. If uid < 0, it is the test's own user. The testbed is
// removed when the test ends.
func NewTestbed(t *testing.T, uid int) *Testbed {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "codex-testbed-")
	Must(t, err)
	t.Cleanup(func() {
		if err := RemoveAll(dir); err != nil {
			t.Errorf("remove the testbed: %v", err)
		}
	})
	Must(t, os.Chmod(dir, 0o755))
	b := &Testbed{T: t, Dir: dir}
	if uid >= 0 && uid != os.Geteuid() {
		b.User = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	Must(t, os.Mkdir(b.Program(""), 0o755))
	Must(t, installAll())
	for _, name := range programs {
		Must(t, LinkOrCopy(filepath.Join(allPrograms(), name), b.Program(name)))
	}
	self, err := os.Executable()
	Must(t, err)
	Must(t, LinkOrCopy(self, b.Self()))
	return b
}

var programs = []string{"codex", "codex-fs", "codex-linux-sandbox"}

// allPrograms returns the directory of all programs. They are built once, because that takes
// seconds.
func allPrograms() string { return filepath.Join(filepath.Dir(Codex), "all") }

var installAll = sync.OnceValue(func() error { return Install(allPrograms(), programs...) })

// Program returns the path of one of the three programs.
func (b *Testbed) Program(name string) string { return filepath.Join(b.Dir, "bin", name) }

// Self returns the path of the test's program.
func (b *Testbed) Self() string { return b.Program("self") }

// Directory makes a directory of the user and returns its path.
func (b *Testbed) Directory(name string) string {
	b.T.Helper()
	path := filepath.Join(b.Dir, name)
	Must(b.T, b.MakeDirectory(path))
	return path
}

// MakeDirectory makes a directory of the user. It may be called by any goroutine.
func (b *Testbed) MakeDirectory(path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return b.Own(path)
}

// Own gives a file to the user.
func (b *Testbed) Own(path string) error {
	if b.User == nil {
		return nil
	}
	return os.Chown(path, int(b.User.Uid), int(b.User.Gid))
}

// Command returns a command that runs as the user. Files that the program writes to a default place
// go to a directory of the testbed.
func (b *Testbed) Command(home, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = home
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + home, "CODEX_HOME=" + home, "TMPDIR=" + home, "LANG=C.UTF-8", "GOTRACEBACK=all"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: b.User}
	return cmd
}

// KillAll kills all processes of the user, unless the test itself runs as that user.
func (b *Testbed) KillAll() {
	if b.User == nil {
		return
	}
	cmd := exec.Command("/bin/sh", "-c", "kill -KILL -1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: b.User}
	_ = cmd.Run() // the command also kills itself
}

// firstUser is the first id that UnusedUser tries. It is above the ids of ordinary and
// system users.
const firstUser = 210_000

// UnusedUser returns the id of a user without processes, because the kernel counts the processes of
// a user for RLIMIT_NPROC.
func UnusedUser() int {
	used := make(map[int]bool)
	for _, p := range Processes() {
		used[p.UID] = true
	}
	uid := firstUser + os.Getpid()%10_000
	for used[uid] {
		uid++
	}
	return uid
}

// RemoveAll removes a tree, whatever the modes of its directories are.
func RemoveAll(dir string) error {
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o755)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
