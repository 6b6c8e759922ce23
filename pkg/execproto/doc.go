// Package execproto is the exec-server's protocol as Go types: method names,
// parameters, results, notifications and error codes.
//
// The types are dumb on purpose: fields, tags and doc comments with units and
// optionality. A server decodes parameters with the strict Decode functions
// of this package, which refuse what the protocol refuses and say so in its
// words, and appends results with the AppendJSON methods, which do not use
// reflection. A client encodes parameters and decodes results with
// encoding/json, for which every type carries tags.
//
// In the comments "section" refers to the protocol description, section
// numbers as in the README's protocol chapter. Paths are strings: a `file:`
// URI or, in requests, a native absolute path; package pathuri turns one into
// the other.
package execproto
