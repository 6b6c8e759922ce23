// Package signin has the credentials with which this program acts for its user: those that the
// environment and auth.json hold, how they are got (codex login), kept fresh,
// and given back (codex logout).
//
//	transport, err := httpclient.New(os.Getenv)
//	...
//	authority := signin.NewAuthority(signin.AuthorityOptions{Getenv: os.Getenv, Transport: transport, Version: version})
//	store, err := signin.OpenStore("file", home, warn)
//	...
//	r := signin.Resolver{Getenv: os.Getenv, Store: store, Authority: authority, Log: log}
//	credential, err := r.Registration(ctx, registryURL)
//
// A Credential adds its headers to each request anew, so that what runs for
// long outlives its tokens: those of a ChatGPT account are refreshed when they
// are about to end, an agent signs the time of each request. It is an
// Authorizer of package registry.
//
// The OAuth requests are made here and not by golang.org/x/oauth2: the services
// want the fields of their forms in an order of their own, and one of the
// grants as JSON.
//
// Keys and tokens are of the type Secret, which does not print. The texts of
// the errors are those of Codex CLI.
//
// The rules are in docs/spec/client.md §5 and §6.
package signin
