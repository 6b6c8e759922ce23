package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"codex.internal/pkg/testutil"
)

// TestCurrentUsage: the usage of a process includes its descendants, even a descendant whose parent
// has ended. After the process has closed, there is no usage.
func TestCurrentUsage(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		p, _ := start(t, g, shell("(sleep 1000 &) & sleep 1000 & while :; do :; done"))
		testutil.Eventually(t.Context(), t, "the numbers of three processes", func() (string, bool) {
			u, ok := p.Current()
			return fmt.Sprintf("%+v %v", u, ok), ok && u.Processes >= 3 && u.Memory > 0 && u.User > 0
		})
		p.Terminate()
		await(t, "close", p.Done())
		if u, ok := p.Current(); ok {
			t.Errorf("after the end: %+v", u)
		}
	})
}

// TestUsageFamily: descendants and the members of the session count once each. If another process
// has the pid now, it does not count.
func TestUsageFamily(t *testing.T) {
	table := func(entries ...entry) *usageTable {
		tab := &usageTable{byPid: map[int]*entry{}, children: map[int][]*entry{}, sessions: map[int][]*entry{}}
		for i := range entries {
			e := &entries[i]
			tab.byPid[e.pid], tab.children[e.parent], tab.sessions[e.session] = e, append(tab.children[e.parent], e), append(tab.sessions[e.session], e)
		}
		return tab
	}
	tab := table(
		entry{pid: 10, parent: 1, session: 10}, entry{pid: 11, parent: 10, session: 10}, entry{pid: 12, parent: 11, session: 12},
		entry{pid: 13, parent: 1, session: 10}, entry{pid: 14, parent: 13, session: 14}, entry{pid: 20, parent: 1, session: 20},
	)
	left := table(entry{pid: 13, parent: 1, session: 10}, entry{pid: 20, parent: 1, session: 20})
	reused := table(entry{pid: 10, parent: 1, session: 10}, entry{pid: 11, parent: 10, session: 10})
	for _, tt := range []struct {
		name   string
		table  *usageTable
		reaped bool
		want   int
	}{{"running", tab, false, 5}, {"reaped with one left", left, true, 1}, {"reaped, and the pid is another's", reused, true, 0}} {
		if got := tt.table.family(10, tt.reaped); len(got) != tt.want {
			t.Errorf("%s: %d processes, want %d", tt.name, len(got), tt.want)
		}
	}
}

// TestUsageTableIsBounded: even if clients ask constantly, also about processes that have just
// started, /proc is read for only a tenth of the time.
func TestUsageTableIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const cost = 100 * time.Millisecond
		for _, tt := range []struct {
			since, after time.Duration // when the process started, and when a client asks, after the reading
			fresh, reads bool
		}{
			{-time.Second, 0, true, false},
			{-time.Second, tableShare*cost - 1, true, false},
			{-time.Second, tableShare * cost, true, true},
			{0, 0, false, false},
			{0, tableShare*cost - 1, false, false},
			{0, tableShare * cost, true, true},
		} {
			now := time.Now()
			tab := &usageTable{began: now.Add(-cost), read: now}
			time.Sleep(tt.after)
			fresh, reads := tab.refresh(now.Add(tt.since)), !tab.began.Equal(now.Add(-cost))
			if fresh != tt.fresh || reads != tt.reads {
				t.Errorf("%+v: it is fresh: %v, and was read: %v", tt, fresh, reads)
			}
		}
		// If reading costs no time, the table is read at once for a new process, and twice a second
		// for others.
		time.Sleep(time.Second)
		tab := &usageTable{began: time.Now(), read: time.Now()}
		began := tab.began
		time.Sleep(tableAge - 1)
		if !tab.refresh(began.Add(-time.Second)) || !tab.began.Equal(began) {
			t.Error("it was read for an old process")
		}
		if !tab.refresh(began.Add(1)) || tab.began.Equal(began) {
			t.Error("it was not read for a new process")
		}
	})
}

// TestUsageOfCgroup: the counters of the cgroup are used if it has them, and otherwise the sums
// over its members.
func TestUsageOfCgroup(t *testing.T) {
	self := strconv.Itoa(os.Getpid())
	for name, tt := range map[string]struct {
		files map[string]string
		check func(CurrentUsage) bool
	}{
		"with controllers": {map[string]string{
			"cgroup.procs": self, "cpu.stat": "usage_usec 7\nuser_usec 5000\nsystem_usec 2000\n", "memory.current": "4096\n", "pids.current": "9\n",
		}, func(u CurrentUsage) bool {
			return u == CurrentUsage{User: 5 * time.Millisecond, System: 2 * time.Millisecond, Memory: 4096, Processes: 9}
		}},
		"without": {map[string]string{"cgroup.procs": self, "cpu.stat": "user_usec 5000\nsystem_usec 2000\n"}, func(u CurrentUsage) bool {
			return u.User == 5*time.Millisecond && u.Memory > 1<<20 && u.Processes == 1
		}},
	} {
		dir := fakeCgroup(t, tt.files)
		p := &Process{cg: cgroupDir{path: dir}, group: &Group{s: &Supervisor{}}}
		if u, ok := p.Current(); !ok || !tt.check(u) {
			t.Errorf("%s: got u %+v, ok %v; want ok true, tt.check(u)", name, u, ok)
		}
		if err := os.RemoveAll(filepath.Join(dir)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestParseStatUsage: a hostile command name does not shift any field, and numbers out of range do
// not overflow.
func TestParseStatUsage(t *testing.T) {
	const rest = "S 1 7 7 0 -1 0 1 2 3 4 100 200 300 400 20 0 1 0 5 4096 3 18446744073709551615"
	for _, name := range []string{"x", ") R 9 9 9 9", "a b\n) ("} {
		e, ok := parseStat(7, "7 ("+name+") "+rest)
		if want := (entry{pid: 7, parent: 1, session: 7, user: 4 * time.Second, system: 6 * time.Second, resident: 3 * pageSize}); !ok || e != want {
			t.Errorf("%q: %+v %v, want %+v", name, e, ok, want)
		}
	}
	const most = "18446744073709551615"
	e, ok := parseStat(7, "7 (x) S 1 7 7 0 -1 0 1 2 3 4 "+most+" "+most+" "+most+" "+most+" 20 0 1 0 5 4096 "+most)
	if !ok || e.user < 0 || e.system < 0 || e.resident == 0 {
		t.Errorf("the largest numbers: %+v %v", e, ok)
	}
}
