// Package registry is the client of an environment registry. A registry is an HTTP service that
// tells an executor and a harness at which relay they meet. It sends the harness the executor's
// public key, and tells the executor whether a harness may connect.
//
// The executor registers, and asks about each harness:
//
//	client, err := registry.New(registry.Options{BaseURL: base, Authorizer: credential})
//	registration, err := client.Register(ctx, environmentID, identity.PublicKey())
//	...
//	err = client.Validate(ctx, environmentID, registry.Claim{...})
//
// The harness asks how to connect:
//
//	connection, err := client.Connect(ctx, environmentID, identity.PublicKey())
//
// Redirects are never followed, because the credentials are meant for one host. The
// error texts are Codex CLI's.
//
// The rules are in docs/spec/relay.md §8.
package registry
