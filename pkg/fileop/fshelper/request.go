package fshelper

import (
	"bytes"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/b64"
	"codex.internal/pkg/wire/jsonwire"
	"codex.internal/pkg/wire/pathuri"
)

// Request returns the request for an operation in pieces, which the caller writes one after the
// other. params is the JSON text of the RPC's params. It must be valid JSON. The pieces alias
// it, so that a large one is not copied. sandbox is the JSON text of the sandbox in the params,
// empty if there is none. Request replaces it by null: the helper already runs in the sandbox,
// and parsing it would take a third of the time of a small request. home is the native path
// that replaces `~` at the beginning of a path; "": unknown.
func Request(operation, home string, params, sandbox []byte) [][]byte {
	head := append([]byte(nil), `{"operation":`...)
	head = jsonwire.AppendString(head, operation)
	if home != "" {
		head = append(head, `,"home":`...)
		head = jsonwire.AppendString(head, pathuri.Format(home))
	}
	pieces := append(make([][]byte, 0, 5), append(head, `,"params":`...))
	// The text of an object with members contains quotes. Within a JSON string all quotes are
	// escaped, so the match cannot be inside of a string: it is a value.
	if before, after, found := bytes.Cut(params, sandbox); found && len(sandbox) > len("null") {
		pieces = append(pieces, before, []byte("null"))
		params = after
	}
	return append(pieces, params, []byte("}\n"))
}

// AppendReadBlock appends the line that requests a block of n bytes.
func AppendReadBlock(b []byte, offset, n uint64) []byte {
	b = append(b, `{"operation":"`+execproto.MethodFSReadBlock+`","params":{"offset":`...)
	b = jsonwire.AppendUint(b, offset)
	b = append(b, `,"len":`...)
	b = jsonwire.AppendUint(b, n)
	return append(b, "}}\n"...)
}

// AppendWriteBlock appends the line that writes a block.
func AppendWriteBlock(b []byte, offset uint64, chunk []byte) []byte {
	b = append(b, `{"operation":"`+execproto.MethodFSWriteBlock+`","params":{"offset":`...)
	b = jsonwire.AppendUint(b, offset)
	b = append(b, `,"chunk":`...)
	b = b64.AppendString(b, chunk)
	return append(b, "}}\n"...)
}

// AppendClose appends the line that closes a handle.
func AppendClose(b []byte) []byte {
	return append(b, `{"operation":"`+execproto.MethodFSClose+`","params":{}}`+"\n"...)
}
