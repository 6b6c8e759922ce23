// Package execproto is the exec-server's protocol as Go types: method names,
// parameters, results, notifications and error codes.
//
// The types have no behaviour: only fields, tags and doc comments with units and
// optionality. A server decodes parameters with the strict Decode functions of
// this package, whose errors are those of the protocol, and appends results with
// the AppendJSON methods, which do not use reflection. A client encodes
// parameters and decodes results with encoding/json, for which every type has
// tags.
//
// The rules of the protocol are in docs/spec/wire.md. Paths are strings: a
// `file:` URI or, in requests, a native absolute path; package pathuri turns
// one into the other.
package execproto
