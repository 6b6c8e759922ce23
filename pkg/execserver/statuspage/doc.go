// Package statuspage shows a client its sessions and processes in a browser, and ends processes.
//
// The package has the data for the page (report.go), the page (page.go), and the proof that the
// user of a form has seen the confirmation (end.go). It does not depend on the server. The
// server implements Source, which returns the data that a client may see and the processes that
// it may end. It may import wsauth, observe, the protocol's types and internal/webpage; it must
// not import pkg/execserver or the other packages below it.
//
// Begin reading with Page.ServeHTTP (statuspage.go).
package statuspage
