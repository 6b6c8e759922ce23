// Package confine says how requests are confined, and starts what confines them.
//
// It decodes the sandbox of a request, applies the ceiling of the client's token and hides what no sandboxed request
// may see: the result is a runner.Confinement, from which the launcher makes its plan. And it has the runtime of the
// backends, the launchers that wait for requests and the janitor.
//
// The package does not know the server: Options say what it needs of it. It may import sandbox, host and wire; it
// must not import pkg/execserver or the other packages below it but observe and wsauth.
//
// Begin reading with Confiner (confine.go). FileConfinement (ceiling.go) and Process (process.go) say how a file request
// and a process are confined. What is hidden is in hidden.go. Limits are in limits.go.
package confine
