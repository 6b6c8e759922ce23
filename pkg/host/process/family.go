package process

import "slices"

// Families returns, for each given process, the pids of the process and of its descendants that can
// be found, in increasing order. They are the pids in its cgroup or, without one, those that
// Terminate would find. All lists together have at most most pids; truncated means that there are
// more. By the time the caller uses a pid, it may belong to another process.
func Families(procs []*Process, most int) (families [][]int, truncated bool) {
	families = make([][]int, len(procs))
	var table []entry
	for i, p := range procs {
		if p.program != nil {
			continue
		}
		pids := p.cg.members()
		if p.cg.path == "" {
			if table == nil {
				table = processTable()
			}
			pids = p.family(table)
		}
		slices.Sort(pids)
		if len(pids) > most {
			pids, truncated = pids[:most], true
		}
		most -= len(pids)
		families[i] = pids
	}
	return families, truncated
}

// family returns the pids of a process without a cgroup, of its descendants, and of the processes
// that are left in its session. table was read after the start of the process.
func (p *Process) family(table []entry) (pids []int) {
	found := make(map[int]bool)
	if !p.isReaped() {
		found[p.pid] = true // it was the process's own pid when the table was read
	} else if slices.ContainsFunc(table, func(e entry) bool { return e.pid == p.pid && e.leadsSession() }) {
		return nil // the pid was reused by another process, which leads a session of its own
	}
	for addFrom(table, found, p.pid, func(int) bool { return false }) {
	}
	for pid := range found {
		pids = append(pids, pid)
	}
	return pids
}
