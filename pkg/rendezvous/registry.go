package rendezvous

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"codex.internal/pkg/noiseik"
)

// errTooMany says that a limit on registrations is reached.
var errTooMany = errors.New("too many environments are registered")

// registration is an executor that offers an environment.
type registration struct {
	ID          string            `json:"id"`
	Environment string            `json:"environment"`
	Key         noiseik.PublicKey `json:"executor_public_key"`
	Token       string            `json:"token"`   // id of whose it is
	Expires     time.Time         `json:"expires"` // when its URL cannot be dialled any more

	sockets int // 0 or 1, and 2 while one replaces the other
}

// registry knows the registrations. The newest of an environment is the one
// that harnesses are sent to. One that was replaced lives on while its executor
// is connected, so that two executors of one name do not throw each other out
// for ever. The methods may be called from any goroutine.
type registry struct {
	state *stateFile // nil: they are lost with the process

	mu      sync.Mutex
	by      map[string]*registration // by id
	current map[string]*registration // by environment
}

func newRegistry(state *stateFile) *registry {
	r := &registry{state: state, by: make(map[string]*registration), current: make(map[string]*registration)}
	if state != nil {
		for _, reg := range state.registrations {
			r.by[reg.ID], r.current[reg.Environment] = reg, reg
		}
	}
	return r
}

// register makes a registration and saves it.
func (r *registry) register(environment string, key noiseik.PublicKey, token string, now time.Time) (registration, error) {
	reg := &registration{ID: uuid.NewString(), Environment: environment, Key: key, Token: token, Expires: now.Add(executorURLTime).UTC().Truncate(time.Second)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetExpired(now)
	former := r.current[environment]
	full := former == nil && len(r.current) >= maxEnvironments
	mine := former != nil && former.Token == token
	if full || !mine && r.count(token) >= tokenEnvironments {
		return registration{}, fmt.Errorf("environment %q: %w", environment, errTooMany)
	}
	r.by[reg.ID], r.current[environment] = reg, reg
	if err := r.save(); err != nil {
		delete(r.by, reg.ID)
		delete(r.current, environment)
		if former != nil {
			r.current[environment] = former
		}
		return registration{}, err
	}
	if former != nil && former.sockets == 0 {
		delete(r.by, former.ID)
	}
	return *reg, nil
}

// count returns how many environments a token has. The caller holds mu.
func (r *registry) count(token string) int {
	n := 0
	for _, reg := range r.current {
		if reg.Token == token {
			n++
		}
	}
	return n
}

// save writes the state file, if there is one. The caller holds mu.
func (r *registry) save() error {
	if r.state == nil {
		return nil
	}
	list := make([]*registration, 0, len(r.current))
	for _, reg := range r.current {
		list = append(list, reg)
	}
	return r.state.save(list)
}

// forgetExpired removes registrations whose executors can come back by none
// of their URLs. The caller holds mu.
func (r *registry) forgetExpired(now time.Time) {
	for id, reg := range r.by {
		if reg.sockets > 0 || now.Before(reg.Expires) {
			continue
		}
		delete(r.by, id)
		if r.current[reg.Environment] == reg {
			delete(r.current, reg.Environment)
		}
	}
}

// sweep removes what has expired. What is in the file is removed when it is
// written next.
func (r *registry) sweep(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetExpired(now)
}

// newest returns the registration of an environment that harnesses are sent to,
// and whether its executor is connected.
func (r *registry) newest(environment string) (reg registration, connected, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.current[environment]
	if found == nil {
		return registration{}, false, false
	}
	return *found, found.sockets > 0, true
}

// find returns the registration with an id, and whether its executor is
// connected.
func (r *registry) find(id string) (reg registration, connected, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.by[id]
	if found == nil {
		return registration{}, false, false
	}
	return *found, found.sockets > 0, true
}

// attach counts a socket of the executor, if the registration is still there.
func (r *registry) attach(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	reg := r.by[id]
	if reg == nil {
		return false
	}
	reg.sockets++
	return true
}

// detach takes a socket of the executor back.
func (r *registry) detach(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	reg := r.by[id]
	if reg == nil {
		return
	}
	reg.sockets--
	if reg.sockets == 0 && r.current[reg.Environment] != reg {
		delete(r.by, id)
	}
}

// list returns the registrations that harnesses are sent to, in no order.
func (r *registry) list() []registration {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]registration, 0, len(r.current))
	for _, reg := range r.current {
		list = append(list, *reg)
	}
	return list
}
