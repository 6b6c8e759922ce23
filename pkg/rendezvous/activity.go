package rendezvous

import (
	"cmp"
	"maps"
	"slices"
	"sort"
)

// activity is what a node knows about the traffic of an environment. Nodes exchange it.
type activity struct {
	Environment string `json:"environment"`
	// Up and Down count the traffic through this node. Up is from harnesses to executors.
	Up        flow             `json:"up"`
	Down      flow             `json:"down"`
	Executors []executorStatus `json:"executors,omitempty"` // that are connected to the node
}

// executorStatus is a connected executor, and its harnesses on all nodes.
type executorStatus struct {
	Registration string         `json:"executor_registration_id"`
	Harnesses    int            `json:"harnesses"`
	Streams      int            `json:"streams"`
	Clients      []clientStatus `json:"clients,omitempty"`
}

// clientStatus is the harnesses of one program.
type clientStatus struct {
	Program     string `json:"program"` // empty: they do not report it
	Connections int    `json:"connections"`
	Streams     int    `json:"streams"`
}

// activity returns the traffic of an environment as far as this node knows it.
func (s *Server) activity(environment string, a *account) activity {
	now := s.now()
	e := activity{Environment: environment, Up: a.up.meter.flow(now), Down: a.down.meter.flow(now)}
	a.mu.Lock()
	executors := maps.Clone(a.executors)
	a.mu.Unlock() // executors have locks of their own, which must be taken first
	for registration, x := range executors {
		e.Executors = append(e.Executors, x.status(registration))
	}
	return e
}

// activities returns the traffic of all environments that have had traffic at this node or have an
// executor here, sorted by name.
func (s *Server) activities() []activity {
	var list []activity
	for environment, a := range s.environments.all() {
		if e := s.activity(environment, a); len(e.Executors) > 0 || e.frames() > 0 {
			list = append(list, e)
		}
	}
	// slices.SortFunc is not used, because it adds 14 KB to the program for each type.
	sort.Slice(list, func(i, j int) bool { return list[i].Environment < list[j].Environment })
	return list
}

func (e *activity) frames() uint64 { return e.Up.Frames + e.Down.Frames }

// executor returns the executor of a registration, or nil.
func (e *activity) executor(registration string) *executorStatus {
	for i := range e.Executors {
		if e.Executors[i].Registration == registration {
			return &e.Executors[i]
		}
	}
	return nil
}

// status counts the executor's harnesses and streams. It names the programs with the most
// connections.
func (x *executor) status(registration string) executorStatus {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := executorStatus{Registration: registration, Harnesses: len(x.harnesses), Streams: len(x.streams)}
	programs := make(map[string]*clientStatus)
	for _, h := range x.harnesses {
		p := programs[h.agent]
		if p == nil {
			p = &clientStatus{Program: h.agent}
			programs[h.agent] = p
		}
		p.Connections++
	}
	for _, s := range x.streams {
		if h := x.harnesses[s.harness]; h != nil {
			programs[h.agent].Streams++
		}
	}
	for _, p := range programs {
		e.Clients = append(e.Clients, *p)
	}
	slices.SortFunc(e.Clients, func(a, b clientStatus) int {
		return cmp.Or(cmp.Compare(b.Connections, a.Connections), cmp.Compare(a.Program, b.Program))
	})
	e.Clients = e.Clients[:min(len(e.Clients), statusClients)]
	return e
}
