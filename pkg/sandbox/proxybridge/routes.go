package proxybridge

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Routes are the proxies of an environment.
type Routes struct {
	Env       []string // with the variables rewritten
	Endpoints []Endpoint
	Ports     []uint16 // inside, for each endpoint
}

// Find finds the proxies in an environment, or in a route spec, and gives each
// a port inside. The error is for people.
func Find(env []string, spec string) (*Routes, error) {
	x := &Routes{Env: slices.Clone(env)}
	routes, err := parseRoutes(spec)
	if err != nil {
		return nil, err
	}
	set, usable := false, 0
	for i, kv := range x.Env {
		key, value, _ := strings.Cut(kv, "=")
		if !slices.Contains(Variables, strings.ToUpper(key)) || strings.TrimSpace(value) == "" {
			continue
		}
		set = true
		u, ok := parseProxyURL(value)
		if path := routes[key]; path != "" {
			u.Endpoint, ok = Endpoint{Path: path}, true
		} else if routes != nil {
			ok = false
		}
		if !ok {
			continue
		}
		usable++
		port, err := x.route(u.Endpoint)
		if err != nil {
			return nil, err
		}
		x.Env[i] = key + "=" + u.rewrite(port)
	}
	switch {
	case !set:
		return nil, errors.New("managed proxy mode requires proxy environment variables")
	case usable == 0:
		return nil, errors.New("managed proxy mode requires parseable loopback proxy endpoints")
	}
	for key := range routes {
		if !slices.ContainsFunc(x.Env, func(kv string) bool { return strings.HasPrefix(kv, key+"=") }) {
			return nil, fmt.Errorf("missing proxy env key %s", key)
		}
	}
	return x, nil
}

// route returns the port inside for an endpoint.
func (x *Routes) route(e Endpoint) (uint16, error) {
	if i := slices.Index(x.Endpoints, e); i >= 0 {
		return x.Ports[i], nil
	}
	if len(x.Endpoints) >= MaxRoutes {
		return 0, fmt.Errorf("more than %d different proxies", MaxRoutes)
	}
	// The network inside is new: every port is free.
	const first, count = 20000, 40000
	port := uint16(first + rand.IntN(count))
	for slices.Contains(x.Ports, port) {
		port++
	}
	x.Endpoints, x.Ports = append(x.Endpoints, e), append(x.Ports, port)
	return port, nil
}
