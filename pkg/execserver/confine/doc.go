// Package confine determines how requests are confined, and starts the launchers and the
// janitor that confine them.
//
// It decodes the sandbox of a request, applies the ceiling of the client's token, and hides the
// paths that no sandboxed request may see. The result is a runner.Confinement, from which the
// launcher makes its plan. The package also has the runtime of the backends, the idle launchers
// and the janitor.
//
// The package does not depend on the server: Options provide what it needs. It may import
// sandbox, host and wire; it must not import pkg/execserver or the other packages below it but
// observe and wsauth.
//
// Begin reading with Confiner (confine.go). FileConfinement (ceiling.go) and Process
// (process.go) determine how a file request and a process are confined. The hidden paths are in
// hidden.go. Limits are in limits.go.
package confine
