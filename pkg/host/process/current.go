package process

import (
	"sync"
	"time"
)

// CurrentUsage is the usage of a running process and its descendants at a moment.
type CurrentUsage struct {
	// User and System are the processor time of the existing processes and of children that they
	// have waited for. With a cgroup, they are the time of all processes that have been in the
	// cgroup.
	User, System time.Duration
	// Memory is in bytes. If the cgroup has the memory controller, it is the controller's counter,
	// including the page cache. Otherwise it is the sum of the resident memory of all processes, in
	// which shared memory counts more than once.
	Memory uint64
	// Processes is the number of processes or, with the pids controller, of threads.
	Processes uint64
}

const (
	// maxTable bounds the entries of /proc that are read for CurrentUsage. Reading one
	// takes about 10 µs.
	maxTable = 64 << 10
	// tableAge is the minimum time for which a table read from /proc is used. It is not used for a
	// process that has started since.
	tableAge = 500 * time.Millisecond
	// A table that took some time to read is used for at least tableShare times as long. So even if
	// clients ask constantly, reading takes at most a tenth of one processor.
	tableShare = 10
)

// usageTable holds the system's processes by their parents and sessions, as they were recently. The
// zero value is ready to use.
type usageTable struct {
	mu       sync.Mutex
	began    time.Time // before it was read
	read     time.Time // when it had been read
	byPid    map[int]*entry
	children map[int][]*entry
	sessions map[int][]*entry
}

// refresh reads the table if it is older than tableAge or was read before the time since, but not
// more often than tableShare permits. It reports whether the table was read after since. The caller
// holds the lock.
func (t *usageTable) refresh(since time.Time) bool {
	keep := t.read.Sub(t.began) * tableShare
	young := t.began.After(since)
	if young {
		keep = max(tableAge, keep)
	}
	if time.Since(t.read) < keep {
		return young
	}
	t.began = time.Now()
	table, _ := readTable(maxTable)
	t.byPid = make(map[int]*entry, len(table))
	t.children, t.sessions = make(map[int][]*entry), make(map[int][]*entry)
	for i := range table {
		e := &table[i]
		t.byPid[e.pid] = e
		t.children[e.parent] = append(t.children[e.parent], e)
		t.sessions[e.session] = append(t.sessions[e.session], e)
	}
	t.read = time.Now()
	return true
}

// family returns a session leader, the members of its session and all their descendants. If the pid
// has no entry, or its process was reaped, only the members of its session are included. The caller
// holds the lock.
func (t *usageTable) family(leader int, reaped bool) []*entry {
	seen := make(map[*entry]bool)
	var list []*entry
	add := func(es []*entry) {
		for _, e := range es {
			if !seen[e] {
				seen[e] = true
				list = append(list, e)
			}
		}
	}
	e := t.byPid[leader]
	switch {
	case e != nil && reaped && e.leadsSession():
		return nil // the pid was reused by another process, which leads a session of its own
	case e != nil && !reaped:
		add([]*entry{e})
	}
	add(t.sessions[leader])
	for i := 0; i < len(list); i++ {
		add(t.children[list[i].pid])
	}
	return list
}

// Current returns the resource usage of the process and its descendants. It returns false if the
// usage is unknown: on a machine with more than maxTable processes, after the process has closed,
// or for a moment after its start if clients ask very often. It may block while /proc is read.
func (p *Process) Current() (CurrentUsage, bool) {
	if p.program != nil || p.State().Closed {
		return CurrentUsage{}, false
	}
	t := &p.group.s.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.refresh(p.startedAt) {
		return p.counted(nil) // an entry of its pid may be of another process
	}
	// This is called after the table was read. If the process is not reaped now, the pid belonged
	// to it when the table was read.
	reaped := p.isReaped()
	if len(t.byPid) == 0 {
		return p.counted(nil)
	}
	return p.counted(t.members(p, reaped))
}

// members returns the entries of a process: those of its cgroup if it has one.
func (t *usageTable) members(p *Process, reaped bool) []*entry {
	if p.cg.path == "" {
		return t.family(p.pid, reaped)
	}
	list := []*entry{}
	for _, pid := range p.cg.members() {
		if e := t.byPid[pid]; e != nil {
			list = append(list, e)
		}
	}
	return list
}

// sum returns the usage of all members of a family.
func sum(members []*entry) (u CurrentUsage) {
	for _, e := range members {
		u.User += e.user
		u.System += e.system
		u.Memory += e.resident
		if !e.zombie {
			u.Processes++
		}
	}
	return u
}
