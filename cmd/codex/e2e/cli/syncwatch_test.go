package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
)

// follows runs a test of sync --watch in both directions, over a connection that the test can cut.
// start waits until the first round is complete.
func follows(t *testing.T,
	test func(t *testing.T, source, target string, start func(options ...string) *harness.User, cut func(during func())),
) {
	_, url := harness.Server(t)
	for _, direction := range []string{"up", "down"} {
		t.Run(direction, func(t *testing.T) {
			cutter, through := harness.ThroughProxy(t, url)
			dir := t.TempDir()
			source, target := dir+"/source", dir+"/target"
			harness.Must(t, os.Mkdir(source, 0o755))
			from, to := source, ":"+target
			if direction == "down" {
				from, to = ":"+source, target
			}
			test(t, source, target, func(options ...string) *harness.User {
				u := harness.AtTerminal(t, append([]string{"remote", "sync", "--watch", "--url", through, from, to}, options...)...)
				u.Expect("for changes until Ctrl-C")
				return u
			}, func(during func()) {
				cutter.SetTarget("127.0.0.1:1") // this port refuses connections
				cutter.Cut()
				during()
				cutter.SetTarget(harness.Address(url))
			})
		})
	}
}

// becomes waits until a tree has the contents of the source, except for omitted files.
func becomes(t *testing.T, target, want string) {
	t.Helper()
	harness.Eventually(t, "the target is not like the source", func() []string {
		if got := contents(t, target); got != want {
			return []string{fmt.Sprintf("%q, want %q", got, want)}
		}
		return nil
	})
}

// settled waits until no complete comparison is pending. Scenario: the events of one removed directory arrive one after the other,
// and each begins a comparison. A comparison removes a file that only the target has.
func settled(t *testing.T, source, target string) {
	t.Helper()
	for i, survived := 0, false; !survived; i++ {
		round := strconv.Itoa(i)
		writeText(t, target+"/settled", "")
		writeText(t, source+"/d/round", round)
		harness.Eventually(t, "a file that follows", func() []string {
			if got, _ := os.ReadFile(target + "/d/round"); string(got) != round {
				return []string{fmt.Sprintf("got %q, want %q", got, round)}
			}
			return nil
		})
		survived = os.Remove(target+"/settled") == nil
	}
	harness.Must(t, os.Remove(source+"/d/round"))
	harness.Eventually(t, "a removed file", func() []string {
		if _, err := os.Lstat(target + "/d/round"); err == nil {
			return []string{"d/round is there"}
		}
		return nil
	})
}

// TestSyncFollows: sync transfers new, changed, renamed and removed files and directories. Files
// that exist only in the target stay until it compares both trees completely: after a directory was
// removed, and after changes were lost.
func TestSyncFollows(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	follows(t, func(t *testing.T, source, target string, start func(...string) *harness.User, cut func(func())) {
		writeText(t, source+"/a", "1")
		writeText(t, source+"/d/f", "f")
		u := start("--delete", "--exclude", "*.o")
		becomes(t, target, "a=1 d/ d/f=f")
		writeText(t, target+"/mine", "m")

		writeText(t, source+"/a", "2")
		writeText(t, source+"/x.o", "")
		writeText(t, source+"/new/deep/g", "g")
		harness.Must(t, os.Symlink("a", source+"/l"))
		becomes(t, target, "a=2 d/ d/f=f l=a mine=m new/ new/deep/ new/deep/g=g")

		// A directory replaces a file, and a file replaces a link.
		harness.Must(t, os.Remove(source+"/l"))
		writeText(t, source+"/l", "file")
		harness.Must(t, os.Remove(source+"/a"))
		writeText(t, source+"/a/h", "h")
		becomes(t, target, "a/ a/h=h d/ d/f=f l=file mine=m new/ new/deep/ new/deep/g=g")

		// Remove only files: a removed directory would cause a complete comparison.
		harness.Must(t, os.Remove(source+"/l"))
		becomes(t, target, "a/ a/h=h d/ d/f=f mine=m new/ new/deep/ new/deep/g=g")
		harness.Must(t, os.Rename(source+"/new", filepath.Dir(source)+"/outside"))
		becomes(t, target, "a/ a/h=h d/ d/f=f")
		settled(t, source, target)

		cut(func() {
			writeText(t, source+"/d/cut", "c")
			harness.Must(t, os.Remove(source+"/d/f"))
			writeText(t, target+"/mine", "m")
		})
		mine := ""
		if strings.HasSuffix(t.Name(), "/up") { // no changes were lost
			mine = " mine=m"
		}
		becomes(t, target, "a/ a/h=h d/ d/cut=c"+mine)
		writeText(t, source+"/d/after", "")
		becomes(t, target, "a/ a/h=h d/ d/after= d/cut=c"+mine)
		harness.Must(t, os.RemoveAll(target+"/mine"))
		harness.Must(t, os.Remove(source+"/x.o"))
		if got, want := described(t, target, true), described(t, source, true); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}

		u.Types("\x03")
		rest, _ := u.End()
		if status := u.Cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGINT {
			t.Errorf("Ctrl-C: %v: %q", status, rest)
		}
	})
}

// TestSyncFollowsAnotherServer: the session is lost together with its server. The sync continues
// with the next server, and finds the changes that were made meanwhile.
func TestSyncFollowsAnotherServer(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	for _, direction := range []string{"up", "down"} {
		t.Run(direction, func(t *testing.T) {
			server, url := harness.Server(t)
			cutter, through := harness.ThroughProxy(t, url)
			dir := t.TempDir()
			from, to := dir+"/source", ":"+dir+"/target"
			if direction == "down" {
				from, to = ":"+dir+"/source", dir+"/target"
			}
			writeText(t, dir+"/source/a", "a")
			u := harness.AtTerminal(t, "remote", "sync", "--watch", "--delete", "--url", through, from, to)
			u.Expect("for changes until Ctrl-C")
			cutter.SetTarget("127.0.0.1:1") // this port refuses connections
			harness.Must(t, server.Process.Kill())
			writeText(t, dir+"/source/b", "b")
			harness.Must(t, os.Remove(dir+"/source/a"))
			_, next := harness.Server(t)
			cutter.SetTarget(harness.Address(next))
			u.Expect("connecting again until Ctrl-C")
			u.Expect("for changes until Ctrl-C")
			becomes(t, dir+"/target", "b=b")
			writeText(t, dir+"/source/c", "c")
			becomes(t, dir+"/target", "b=b c=c")
		})
	}
}

// TestSyncFollowsGit: a changed .gitignore also affects files that did not change.
func TestSyncFollowsGit(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	follows(t, func(t *testing.T, source, target string, start func(...string) *harness.User, _ func(func())) {
		writeText(t, source+"/.gitignore", "*.log\n")
		writeText(t, source+"/a.log", "l")
		writeText(t, source+"/b", "b")
		start("--git", "--delete")
		becomes(t, target, ".gitignore=*.log\n b=b")
		writeText(t, source+"/c.log", "")
		writeText(t, source+"/.git/index", "")
		writeText(t, source+"/c", "c")
		becomes(t, target, ".gitignore=*.log\n b=b c=c")
		writeText(t, source+"/.gitignore", "/b\n")
		// Newly ignored files stay in the target, like all omitted files.
		becomes(t, target, ".gitignore=/b\n a.log=l b=b c=c c.log=")
	})
}

// TestSyncFollowsFloods: if there are more changes than a watch can hold, it reports lost changes,
// and sync compares the trees completely.
func TestSyncFollowsFloods(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	follows(t, func(t *testing.T, source, target string, start func(...string) *harness.User, _ func(func())) {
		start("--delete")
		for i := range testutil.Rounds(800, 800, 3000) { // the queue of inotify holds 16,384 events
			name := fmt.Sprintf("%s/%d/%d", source, i%10, i)
			writeText(t, name, "")
			for range 8 {
				harness.Must(t, os.Rename(name, name+"x"))
				harness.Must(t, os.Rename(name+"x", name))
			}
		}
		harness.Eventually(t, "the target is not like the source", func() []string {
			if described(t, target, true) != described(t, source, true) {
				return []string{"they differ"}
			}
			return nil
		})
	})
}

// TestSyncWatchMistakes checks error messages, and that the sync ends when the source is
// removed.
func TestSyncWatchMistakes(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	dir := t.TempDir()
	harness.Must(t, os.Mkdir(dir+"/s", 0o755))
	for _, tt := range []struct {
		url, source, target string
		want                string
	}{
		{disguised(t, url, "fs/watch"), ":" + dir + "/s", dir + "/x", "--watch: the server cannot watch files; leave it out"},
		{url, ":/proc/self", dir + "/x", "does not report changes"},
		{url, "/proc/self", ":" + dir + "/x", "does not report changes"},
	} {
		if _, errs, code := harness.Run(t, "", "remote", "sync", "--watch", "--url", tt.url, tt.source, tt.target, "-q"); code != 1 || !strings.Contains(errs, tt.want) {
			t.Errorf("%s %s: got exit code %d, stderr %q; want exit code 1, stderr with %q", tt.source, tt.target, code, errs, tt.want)
		}
	}
	follows(t, func(t *testing.T, source, _ string, start func(...string) *harness.User, _ func(func())) {
		u := start()
		harness.Must(t, os.Remove(source))
		u.Expect("was moved or removed")
		if rest, code := u.End(); code != 1 {
			t.Errorf("exit code %d: %q", code, rest)
		}
	})
}
