package process

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// counted returns the usage of all members of a family. It uses the counters of their cgroup
// instead of sums if there are any. members is nil if the members are unknown.
func (p *Process) counted(members []*entry) (CurrentUsage, bool) {
	u := sum(members)
	if p.cg.path == "" {
		return u, members != nil
	}
	stat := p.cg.read("cpu.stat")
	if stat != "" {
		u.User = time.Duration(counterIn(stat, "user_usec")) * time.Microsecond
		u.System = time.Duration(counterIn(stat, "system_usec")) * time.Microsecond
	}
	for name, to := range map[string]*uint64{"memory.current": &u.Memory, "pids.current": &u.Processes} {
		if n, err := strconv.ParseUint(strings.TrimSpace(p.cg.read(name)), 10, 64); err == nil {
			*to = n
		}
	}
	return u, members != nil || stat != ""
}

// read returns the text of a file of the cgroup, or "" if it cannot be read. The files have a few
// hundred bytes.
func (c cgroupDir) read(name string) string {
	text, err := os.ReadFile(filepath.Join(c.path, name))
	if err != nil {
		return ""
	}
	return string(text)
}
