// Package statuspage shows a client its sessions and processes in a browser, and ends processes.
//
// It knows what is shown (report.go), the page (page.go), and how a form proves that its user has seen
// the question (end.go). It does not know the server, which is a Source: what a client may see, and the
// processes that it may end. It may import wsauth, observe, the protocol's types and internal/webpage; it
// must not import pkg/execserver or the other packages below it.
//
// Begin reading with Page.ServeHTTP (statuspage.go).
package statuspage
