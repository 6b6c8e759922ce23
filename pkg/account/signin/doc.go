// Package signin manages the credentials with which this program acts for its user. It reads them from the environment
// and auth.json, gets them (codex login), refreshes them, and revokes them (codex logout).
//
//	transport, err := httpclient.New(os.Getenv)
//	...
//	authority := signin.NewAuthority(signin.AuthorityOptions{Getenv: os.Getenv, Transport: transport, Version: version})
//	store, err := signin.OpenStore("file", home, warn)
//	...
//	r := signin.Resolver{Getenv: os.Getenv, Store: store, Authority: authority, Log: log}
//	credential, err := r.Registration(ctx, registryURL)
//
// A Credential computes its headers for each request, so that a program can run longer than its
// tokens are valid: tokens of a ChatGPT account are refreshed before they expire, and an agent
// signs the time of each request. A Credential implements Authorizer of package registry.
//
// The OAuth requests are not made by golang.org/x/oauth2, because the services require a particular
// order of form fields, and expect one of the grants as JSON.
//
// Keys and tokens have the type Secret, which does not print. The error texts are Codex CLI's.
//
// The rules are in docs/spec/client.md §5 and §6.
package signin
