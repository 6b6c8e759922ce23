package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
)

// keeperDir returns the directory of a detached process of this user.
func (d *detaching) keeperDir(name string) string {
	digest := sha256.Sum256(fmt.Appendf(nil, "user %d\x00detached/%s", os.Geteuid(), name))
	return filepath.Join(d.dir, hex.EncodeToString(digest[:16]))
}

// record returns the record of a process, so that the test can change and rewrite it.
func (d *detaching) record(name string) map[string]any {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.keeperDir(name), "record.json"))
	harness.Must(d.t, err)
	var record map[string]any
	harness.Must(d.t, json.Unmarshal(text, &record))
	return record
}

// plant creates the directory of a process that no server has started.
func (d *detaching) plant(name string, record map[string]any) (dir string) {
	d.t.Helper()
	dir = d.keeperDir(name)
	harness.Must(d.t, os.Mkdir(dir, 0o700))
	text, err := json.Marshal(record)
	harness.Must(d.t, err)
	harness.Must(d.t, os.WriteFile(filepath.Join(dir, "record.json"), text, 0o600))
	harness.Must(d.t, os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600))
	return dir
}

// TestKeepersOfOthers: another user cannot connect to the socket of a keeper, not even with the
// keeper's secret and if the directories are open to all users.
func TestKeepersOfOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	root, err := os.MkdirTemp("/var/tmp", "codex-keeper-")
	harness.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	d := newDetachingIn(t, filepath.Join(root, "retain"))
	d.must("run", "--detach", "--name", "job", "--", "sleep", "1000")
	dir := d.keeperDir("job")
	secret := fmt.Sprint(d.record("job")["secret"])
	try := func(user uint32) string {
		return upgradeAs(user, "--unix-socket", dir+"/socket", "-H", "Authorization: Bearer "+secret, "http://keeper/")
	}
	if got := try(65534); got != "000" {
		t.Errorf("another user reaches the socket: %s", got)
	}
	for _, path := range []string{root, d.dir, dir, dir + "/socket"} {
		harness.Must(t, os.Chmod(path, 0o777))
	}
	if got := try(65534); got != "403" {
		t.Errorf("another user with the secret gets %s", got)
	}
	if got := try(0); got != "101" {
		t.Errorf("the control, the keeper's user, gets %s", got)
	}
	// The next server uses no file from a directory that others can change.
	d.end(syscall.SIGKILL)
	d.start()
	if out := d.must("ps", "--quiet"); out != "" {
		t.Errorf("from an open directory the server takes %s", out)
	}
	for _, path := range []string{root, d.dir, dir} {
		harness.Must(t, os.Chmod(path, 0o700))
	}
	d.end(syscall.SIGKILL)
	d.start()
	if s := d.status("job"); s != "running" {
		t.Errorf("afterwards the process is %q", s)
	}
}

// TestPlantedKeepers: a file already exists where a server is about to create the directory of a
// process. The start fails. The server writes nothing through that file, and continues.
func TestPlantedKeepers(t *testing.T) {
	t.Parallel()
	d := newDetaching(t)
	d.must("run", "--detach", "--name", "first", "--", "sleep", "1000")
	victim := t.TempDir()
	for what, plant := range map[string]func(path string) error{
		"link":      func(path string) error { return os.Symlink(victim, path) },
		"dangling":  func(path string) error { return os.Symlink(filepath.Join(victim, "new"), path) },
		"fifo":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"file":      func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"fifos": func(path string) error {
			harness.Must(t, os.Mkdir(path, 0o700))
			harness.Must(t, syscall.Mkfifo(path+"/lock", 0o600))
			return syscall.Mkfifo(path+"/record.json", 0o600)
		},
	} {
		harness.Must(t, plant(d.keeperDir(what)))
		if out, errs, code := d.run("run", "--detach", "--name", what, "--", "true"); code != 127 || !strings.Contains(errs, "already") {
			t.Errorf("%s: exit code %d, %q, %s", what, code, out, errs)
		}
		for _, command := range []string{"logs", "kill", "forget"} {
			if _, errs, code := d.run(command, what); code == 0 || !strings.Contains(errs, "you have no such ") {
				t.Errorf("%s of a %s: exit code %d, %s", command, what, code, errs)
			}
		}
	}
	if left, err := os.ReadDir(victim); err != nil || len(left) > 0 {
		t.Errorf("behind the links there are %v, %v", left, err)
	}
	if out := d.must("ps", "--quiet"); out != "first\n" {
		t.Errorf("the server lists %q", out)
	}
	// The parent of all directories is a link.
	link := filepath.Join(t.TempDir(), "link")
	harness.Must(t, os.Symlink(victim, link))
	_, url := harness.Server(t, "--retain-dir", link)
	if _, errs, code := harness.Run(t, "", "remote", "run", "--url", url, "--detach", "--", "true"); code != 127 || !strings.Contains(errs, "is a link") {
		t.Errorf("a link as --retain-dir: exit code %d, %s", code, errs)
	}
}

// TestForgedKeepers: a record was not written by a server, and a foreign process or no process
// holds its lock. The server must neither signal a foreign process nor wait for ever.
func TestForgedKeepers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	d := newDetaching(t)
	d.must("run", "--detach", "--name", "real", "--", "sleep", "1000")
	victim := exec.Command("sleep", "300") // no Pdeathsig: the kernel would send it when the thread that started the process ends
	record := d.record("real")
	forge := func(name string) string {
		record["processId"], record["pid"], record["keeper"] = "detached/"+name, 1, 1
		return d.plant(name, record)
	}
	// This simulates a keeper and a server that were killed before the process was started.
	forge("stale")
	// A foreign process holds the lock, and the directory has the socket of another keeper.
	dir := forge("forged")
	lock, err := os.OpenFile(dir+"/lock", os.O_RDWR, 0)
	harness.Must(t, err)
	harness.Must(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	victim.ExtraFiles = []*os.File{lock}
	harness.Must(t, victim.Start())
	_ = lock.Close()
	t.Cleanup(func() {
		_ = victim.Process.Kill()
		_ = victim.Wait()
	})
	harness.Must(t, os.Symlink(d.keeperDir("real")+"/socket", dir+"/socket"))
	// The real keeper answers on that socket. It does not know the forged process, and the server
	// must not mistake it for that process's keeper.
	for _, name := range []string{"forged", "stale"} {
		for _, command := range []string{"kill", "wait", "logs"} {
			_, errs, code := d.run(command, name)
			if code == 0 && command != "kill" {
				t.Errorf("%s %s: exit code %d, %s", command, name, code, errs)
			}
		}
	}
	harness.Must(t, os.Remove(dir+"/socket"))
	d.end(syscall.SIGKILL) // the foreign process still has a connection
	d.start()
	if _, errs, code := d.run("kill", "forged"); code == 0 || !strings.Contains(errs, "keeper") {
		t.Errorf("kill without a socket: exit code %d, %s", code, errs)
	}
	if stat, gone := testutil.Gone(victim.Process.Pid); gone {
		t.Errorf("the foreign process has ended: %s", stat)
	}
	if s := d.status("real"); s != "running" {
		t.Errorf("the real process is %q", s)
	}
	// When the lock is free, the server can remove the other files.
	_ = victim.Process.Kill()
	_ = victim.Wait()
	d.must("forget", "forged")
	d.must("forget", "stale")
	if out := d.must("ps", "--quiet"); out != "real\n" {
		t.Errorf("the server lists %q", out)
	}
}
