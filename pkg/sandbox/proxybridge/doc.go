// Package proxybridge connects a command that has its own network with proxies on the host
// (docs/spec/network.md §3). It finds the proxies in environment variables, rewrites the variables
// to ports inside, and copies bytes between listeners inside and the proxies.
package proxybridge

const (
	// MaxRoutes bounds the different proxies: each variable has one at most.
	MaxRoutes = 32
	// maxProxied bounds the connections that are open at a time through one
	// listener; more wait in its queue.
	maxProxied = 256
	copyBuffer = 64 << 10
)
