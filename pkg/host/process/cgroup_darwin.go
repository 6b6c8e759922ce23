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
func (cgroupDir) fd() int                     { return -1 }
func (cgroupDir) closeFD()                    {}
func (cgroupDir) members() []int              { return nil }
func (cgroupDir) kill() bool                  { return false }
func (cgroupDir) populated() bool             { return false }
func (cgroupDir) remove()                     {}
func (cgroupDir) removeAll()                  {}

func isJanitor(int) bool { return false }
