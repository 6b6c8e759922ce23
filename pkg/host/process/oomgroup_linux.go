package process

import "path/filepath"

// OOMGroup returns the cgroup of this program, or the one above it, in which the kernel kills all
// processes together when memory is short: memory.oom.group is 1, as the kubelet sets it for
// containers. empty: there is none, and the kernel kills the largest process, or it cannot be seen.
//
// A process with the oom_score_adj -1000 is spared, but only root can lower that value. Moving the
// server to a child cgroup does not help: the kernel takes the highest cgroup with memory.oom.group
// below the one whose memory is short.
func OOMGroup() string {
	_, own, err := ownCgroup()
	if err != nil {
		return ""
	}
	return oomGroup(own)
}

func oomGroup(dir string) string {
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if value := words(dir, "memory.oom.group"); len(value) == 1 && value[0] == "1" {
			return dir
		}
	}
	return ""
}
