//go:build linux || darwin

package fshelper

import (
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/jsonwire"
	"codex.internal/pkg/wire/pathuri"
)

// Request returns the request for an operation in pieces, which are to be written
// one after the other. params is the JSON text of the RPC's params; it is valid JSON
// and is one of the pieces, so a large one is not copied. The helper ignores their
// sandbox. home is the native path that `~` at the beginning of a path means; "":
// unknown.
func Request(operation, home string, params []byte) [3][]byte {
	head := append([]byte(nil), `{"operation":`...)
	head = jsonwire.AppendString(head, operation)
	if home != "" {
		head = append(head, `,"home":`...)
		head = jsonwire.AppendString(head, pathuri.Format(home))
	}
	return [3][]byte{append(head, `,"params":`...), params, []byte("}\n")}
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
	b = jsonwire.AppendBase64String(b, chunk)
	return append(b, "}}\n"...)
}

// AppendClose appends the line that closes a handle.
func AppendClose(b []byte) []byte {
	return append(b, `{"operation":"`+execproto.MethodFSClose+`","params":{}}`+"\n"...)
}
