package process

import "errors"

// cgroupRoot and cgroupDir do nothing on macOS, which has no cgroups:
// descendants are found by their parents and sessions.
type cgroupRoot struct{ path string }

func newCgroupRoot() (*cgroupRoot, error) {
	return nil, errors.New("cgroups are a part of Linux")
}

func (*cgroupRoot) session() cgroupDir { return cgroupDir{} }
func (*cgroupRoot) remove()            {}

type cgroupDir struct{ path string }

func (cgroupDir) child(*cgroupRoot) cgroupDir { return cgroupDir{} }
func (cgroupDir) open() (int, error)          { return -1, nil }
func (cgroupDir) members() []int              { return nil }
func (cgroupDir) kill() bool                  { return false }
func (cgroupDir) populated() bool             { return false }
func (cgroupDir) remove() bool                { return true }
func (cgroupDir) removeAll()                  {}

func isJanitor(int) bool { return false }

// limitRoot and account are those of Linux.
type limitRoot struct {
	have map[string]bool
	swap bool
}

const (
	memoryController = "memory"
	pidsController   = "pids"
	cpuController    = "cpu"
)

type limitState struct{}

func (*Supervisor) limitRoot() (*limitRoot, error) {
	return nil, errors.New("cgroups are a part of Linux")
}

func (*Supervisor) removeLimitRoot() {}

type account struct{}

func (*Group) limited(*limitRoot, *Limits) (cgroupDir, *account, error) {
	return cgroupDir{}, nil, errors.New("cgroups are a part of Linux")
}

func (*account) usage(*Usage)         {}
func (*account) outOfMemory() bool    { return false }
func (*account) refusedProcess() bool { return false }
func (*account) close()               {}

func disable(string, []string) {}

// ServiceCgroup reports false: there are no cgroups.
func ServiceCgroup() bool { return false }
