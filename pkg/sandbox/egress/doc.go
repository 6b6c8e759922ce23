// Package egress is the network proxy of one process: an HTTP proxy and a SOCKS5 proxy, each on its
// own loopback port. They let the process reach the hosts that its policy allows
// (docs/spec/network.md §4).
//
// A Host holds the data that the proxies of one server share. Start creates the proxy of a process,
// and Environ returns the environment that makes the process use it:
//
//	policy, err := egress.NewPolicy(egress.Config{Domains: ...})
//	proxy, err := host.Start(policy, egress.Hooks{Ask: ask, Report: report})
//	env = proxy.Environ(env)
//	defer proxy.Close()
//
// For each request the proxy normalises the host (host.go), and decides by the policy's patterns,
// the address and the client's answer to a question (decide.go). It passes the decision to
// Hooks.Report. It resolves a name once per request, and connects only to the addresses that it has
// checked.
//
// The package does not depend on JSON-RPC: the caller passes functions for questions and
// reports.
package egress
