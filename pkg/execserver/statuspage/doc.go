// Package statuspage shows a client its sessions and processes in a browser, and ends processes.
//
// It has the data to show (report.go), the page (page.go), and the proof that a form's user has seen the
// confirmation (end.go). It does not depend on the server, which implements Source: the data that a
// client may see, and the processes that it may end. It may import wsauth, observe, the protocol's types
// and internal/webpage; it must not import pkg/execserver or the other packages below it.
//
// Begin reading with Page.ServeHTTP (statuspage.go).
package statuspage
