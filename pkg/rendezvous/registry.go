package rendezvous

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"codex.internal/pkg/wire/secret"
)

// registry is the State of a service that is one process.
type registry struct {
	secret.Unprinted
	keys Keys
	file *stateFile // nil: registrations are lost with the process
	now  func() time.Time

	mu          sync.Mutex
	by          map[string]*entry // by id
	current     map[string]*entry // by environment
	generations uint64

	spent *Nonces
}

// entry is a registration and the number of its executor's sockets: 0 or 1, or 2 while one socket
// replaces the other.
type entry struct {
	Registration
	sockets    int
	connection *ExecutorConnection // the newest; it is replaced, not changed
	generation uint64              // of it
}

func newRegistry(file *stateFile) *registry {
	r := &registry{
		keys: Keys{URLs: newSigner().key, Authorizations: newSigner().key}, file: file, now: time.Now,
		by: make(map[string]*entry), current: make(map[string]*entry), spent: NewNonces(),
	}
	if file != nil {
		r.keys.URLs = file.signer.key
		for _, reg := range file.registrations {
			e := &entry{Registration: *reg}
			r.by[reg.ID], r.current[reg.Environment] = e, e
		}
	}
	return r
}

// Keys implements State. The key of authorizations exists only as long as the process, because the
// used nonces are also stored only in memory.
func (r *registry) Keys() Keys { return r.keys }

// Register implements State.
func (r *registry) Register(_ context.Context, reg Registration) error {
	e := &entry{Registration: reg}
	r.mu.Lock()
	defer r.mu.Unlock()
	gone := r.forgetExpired(r.now())
	former := r.current[reg.Environment]
	full := former == nil && len(r.current) >= MaxEnvironments
	mine := former != nil && former.Token == reg.Token
	if full || !mine && r.count(reg.Token) >= TokenEnvironments {
		return errors.Join(fmt.Errorf("environment %q: %w", reg.Environment, ErrTooMany), r.save(nil, gone))
	}
	r.by[reg.ID], r.current[reg.Environment] = e, e
	if err := r.save(&e.Registration, gone); err != nil {
		delete(r.by, reg.ID)
		delete(r.current, reg.Environment)
		if former != nil {
			r.current[reg.Environment] = former
		}
		return err
	}
	if former != nil && former.sockets == 0 {
		delete(r.by, former.ID)
	}
	return nil
}

// count returns how many environments a token has. The caller holds mu.
func (r *registry) count(token string) int {
	n := 0
	for _, e := range r.current {
		if e.Token == token {
			n++
		}
	}
	return n
}

// save changes the state file, if there is one (see stateFile.change). The caller holds mu.
func (r *registry) save(reg *Registration, gone []string) error {
	if r.file == nil || reg == nil && len(gone) == 0 {
		return nil
	}
	return r.file.change(reg, gone)
}

// forgetExpired removes the registrations of executors that are not connected and whose
// URLs have expired, and returns their environments. The caller holds mu.
func (r *registry) forgetExpired(now time.Time) (gone []string) {
	for id, e := range r.by {
		if e.sockets > 0 || now.Before(e.Expires) {
			continue
		}
		delete(r.by, id)
		if r.current[e.Environment] == e {
			delete(r.current, e.Environment)
			gone = append(gone, e.Environment)
		}
	}
	return gone
}

// Sweep implements State. It removes expired registrations. If the state file cannot be changed, the next service
// removes those in it.
func (r *registry) Sweep(context.Context) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.save(nil, r.forgetExpired(now)) // Check reports the error
	r.spent.Sweep(now)
}

// Newest implements State.
func (r *registry) Newest(_ context.Context, environment string) (Registration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.current[environment]
	if e == nil {
		return Registration{}, fmt.Errorf("environment %q: %w", environment, ErrNotRegistered)
	}
	return e.Registration, nil
}

// Find implements State.
func (r *registry) Find(_ context.Context, id string) (Registration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.by[id]
	if e == nil {
		return Registration{}, fmt.Errorf("registration %s: %w", id, ErrNotRegistered)
	}
	return e.Registration, nil
}

// Attach implements State.
func (r *registry) Attach(_ context.Context, id string, c ExecutorConnection) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.by[id]
	if e == nil {
		return 0, fmt.Errorf("registration %s: %w", id, ErrNotRegistered)
	}
	e.sockets++
	r.generations++
	e.connection, e.generation = &c, r.generations
	return r.generations, nil
}

// Detach implements State.
func (r *registry) Detach(_ context.Context, id string, generation uint64, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.by[id]
	if e == nil {
		return
	}
	e.sockets--
	if e.generation == generation {
		ended := *e.connection
		ended.Until = at
		e.connection = &ended
	}
	if e.sockets == 0 && r.current[e.Environment] != e {
		delete(r.by, id)
	}
}

// Nonce implements State.
func (r *registry) Nonce() string { return rand.Text() }

// Spend implements State.
func (r *registry) Spend(_ context.Context, nonce string, until time.Time) (bool, error) {
	return r.spent.Spend(nonce, until), nil
}

// List implements State.
func (r *registry) List() []Listed {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]Listed, 0, len(r.current))
	for _, e := range r.current {
		list = append(list, Listed{e.Registration, e.sockets > 0, e.connection})
	}
	return list
}

// Check implements State.
func (r *registry) Check(context.Context) error {
	if r.file != nil && r.file.broken.Load() {
		return fmt.Errorf("%s cannot be written", r.file.path)
	}
	return nil
}
