package execserver

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"codex.internal/pkg/host/shellsnapshot"
)

// TestSnapshotsAreShared: concurrent starts wait for one run of the start-up files.
func TestSnapshotsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x snapshots
		runs := 0
		want := &shellsnapshot.Snapshot{}
		capture := func(context.Context) (*shellsnapshot.Snapshot, error) {
			runs++
			time.Sleep(time.Second)
			return want, nil
		}
		for range 3 {
			go func() {
				if got := x.get(t.Context(), "k", capture); got != want {
					t.Errorf("got %v", got)
				}
			}()
		}
		synctest.Wait()
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if x.get(cancelled, "k", capture) != nil {
			t.Error("a start that was cancelled waited")
		}
		time.Sleep(2 * time.Second)
		if runs != 1 || x.get(t.Context(), "k", capture) != want {
			t.Errorf("%d runs", runs)
		}
	})
}

// TestSnapshotsThatFail: if the start-up files fail, the server stops running them twice for
// each command after some attempts.
func TestSnapshotsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x snapshots
		runs := 0
		fail := func(ctx context.Context) (*shellsnapshot.Snapshot, error) {
			runs++
			return nil, errors.New("no")
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		x.get(cancelled, "k", fail) // a cancelled attempt does not count
		for i, want := range []int{2, 2, 3, 3, 4, 4} {
			if x.get(t.Context(), "k", fail) != nil || runs != want {
				t.Errorf("attempt %d: %d runs, want %d", i, runs, want)
			}
			if i%2 == 1 {
				time.Sleep(snapshotPause)
			}
		}
		time.Sleep(time.Hour)
		if x.get(t.Context(), "k", fail); runs != 1+snapshotTries {
			t.Errorf("%d runs", runs)
		}
		slow := func(ctx context.Context) (*shellsnapshot.Snapshot, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		began := time.Now()
		if x.get(t.Context(), "slow", slow); time.Since(began) != snapshotTime {
			t.Errorf("it took %v", time.Since(began))
		}
	})
}

func TestSnapshotsAreBounded(t *testing.T) {
	var x snapshots
	runs := 0
	capture := func(context.Context) (*shellsnapshot.Snapshot, error) {
		runs++
		return &shellsnapshot.Snapshot{}, nil
	}
	use := func(i int) { x.get(t.Context(), fmt.Sprint(i), capture) }
	for i := range maxSnapshots {
		use(i)
	}
	use(0)
	use(maxSnapshots) // replaces 1, which is the least recently used
	use(0)
	if runs != maxSnapshots+1 || len(x.entries) != maxSnapshots || x.entries["1"] != nil {
		t.Errorf("%d runs, %d entries", runs, len(x.entries))
	}
}

// TestBackgroundJobsOfAProfileLiveOn: a snapshot does not wait for background jobs of the
// start-up files. They end with the session.
func TestBackgroundJobsOfAProfileLiveOn(t *testing.T) {
	_, url := newTestServer(t, Options{})
	home := t.TempDir()
	mustWrite(t, home+"/.bash_profile", []byte("sleep 1000 &\nexport JOB=$!\n"))
	p, _ := hello(t, url)
	p.call("process/start", object{
		"processId": "a", "argv": []string{"/bin/bash", "-lc", "kill -0 $JOB && echo lives"}, "cwd": "file://" + home, "tty": false,
		"env":           object{"HOME": home, "PATH": "/usr/bin:/bin"},
		"shellSnapshot": object{"scopeId": "s", "shell": object{"name": "bash", "path": "/bin/bash"}},
	}, nil)
	if out, code := p.closed("a"); out != "lives\n" || code != 0 {
		t.Errorf("got %q, exit %d", out, code)
	}
}
