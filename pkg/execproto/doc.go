// Package execproto is the exec-server's protocol as Go types: method names,
// parameters, results, notifications, error codes, and the errors that clients
// recognise.
//
// A type is written once: its method Fields lists its members, and package jsonwire
// writes and reads objects by that list, for clients and servers alike.
// encoding/json must not be used with these types: it does not know the names of the
// members. To add a member, add a field and a line to Fields.
//
//	params, err := execproto.Append(nil, &execproto.ReadParams{ProcessID: "1"})
//	result, err := execproto.Decode[execproto.ReadResult](text)
//
// Params and notifications are read strictly: a missing member or one with another
// type is an error, with the protocol's text. Most members of results may be
// missing, because servers of other versions leave them out. Only process/output,
// which is most of what a server sends, is written by hand: see AppendOutput.
//
// The rules of the protocol are in docs/spec/wire.md. Paths are strings: a
// `file:` URI or, in requests, a native absolute path; package pathuri turns
// one into the other.
package execproto
