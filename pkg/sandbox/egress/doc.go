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
// For each request the proxy normalises the host (host.go), decides by the
// policy's patterns, the address and the answer to a question (decide.go), passes
// the decision to Hooks.Report, and connects to addresses that were judged, never
// to a second answer of the resolver. A name is resolved once per request.
//
// The package knows no JSON-RPC: questions and reports are functions of the
// caller.
package egress
