package execenv

import (
	"errors"
	"slices"
	"sync"
)

// Set holds environments. Its methods may be called from any goroutine.
type Set struct {
	opts Options

	mu     sync.Mutex
	config Config
	envs   map[string]*Environment
	closed bool
}

// Open makes the environments of a valid configuration. Environments at URLs begin to connect
// in the background. Programs are started on first use.
func Open(c Config, o Options) *Set {
	c.Environments = slices.Clone(c.Environments)
	s := &Set{opts: o.withDefaults(), config: c, envs: make(map[string]*Environment, len(c.Environments))}
	for _, spec := range c.Environments {
		s.envs[spec.ID] = newEnvironment(spec, s.opts)
		s.envs[spec.ID].startConnecting()
	}
	return s
}

// Default returns the default environment, or ErrNoDefault, or ErrClosed.
func (s *Set) Default() (*Environment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, ErrClosed
	case s.config.Default == "":
		return nil, ErrNoDefault
	}
	return s.envs[s.config.Default], nil
}

// Get returns the environment with an id, or an *UnknownError, or ErrClosed.
func (s *Set) Get(id string) (*Environment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.envs[id]
	switch {
	case s.closed:
		return nil, ErrClosed
	case e == nil:
		return nil, &UnknownError{id}
	}
	return e, nil
}

// Close closes all environments concurrently.
func (s *Set) Close() error {
	s.mu.Lock()
	s.closed = true
	envs := s.envs
	s.envs, s.config = nil, Config{}
	s.mu.Unlock()
	var wg sync.WaitGroup
	results := make(chan error, len(envs))
	for _, e := range envs {
		wg.Go(func() { results <- e.Close() })
	}
	wg.Wait()
	close(results)
	var err error
	for e := range results {
		err = errors.Join(err, e)
	}
	return err
}
