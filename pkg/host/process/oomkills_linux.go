package process

import (
	"os"
	"path/filepath"
)

// memoryKills counts what the kernel has killed for memory in the cgroup that this program is in when it starts: in a
// container, or in a service whose processes have no cgroups of their own. "" is a path that counts nothing.
type memoryKills struct{ path string }

func newMemoryKills() memoryKills {
	_, own, err := ownCgroup()
	if err != nil {
		return memoryKills{}
	}
	return memoryKills{filepath.Join(own, "memory.events")}
}

func (k memoryKills) count() uint64 {
	if k.path == "" {
		return 0
	}
	text, err := os.ReadFile(k.path)
	if err != nil {
		return 0 // the root cgroup has no such file
	}
	return counterIn(string(text), "oom_kill")
}
