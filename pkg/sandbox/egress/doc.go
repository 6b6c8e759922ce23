// Package egress is the network proxy of one process: an HTTP proxy and a SOCKS5
// proxy on loopback ports of their own, which let the process reach the hosts
// that its policy allows (docs/spec/network.md §4).
//
// A Host holds the data that the proxies of one server share. Start makes the proxy of a
// process, and Environ the environment that points the process at it:
//
//	policy, err := egress.NewPolicy(egress.Config{Domains: ...})
//	proxy, err := host.Start(policy, egress.Hooks{Ask: ask, Report: report})
//	env = proxy.Environ(env)
//	defer proxy.Close()
//
// For each request the proxy normalises the host (host.go), decides by the policy's
// patterns, the address and the answer to a question (decide.go), passes the decision to
// Hooks.Report, and connects only to the addresses that it has checked, never to those
// of a second look-up. A name is resolved once per request.
//
// The package does not depend on JSON-RPC: the caller passes functions for questions and
// reports.
package egress
