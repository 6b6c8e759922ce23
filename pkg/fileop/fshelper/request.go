//go:build linux || darwin

package fshelper

import (
	"fmt"
	"strings"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/jsonwire"
	"codex.internal/pkg/wire/pathuri"
)

// AppendRequest appends the request for an operation, with its newline. params is
// the JSON text of the RPC's params, which must have been decoded before. Their
// sandbox is left out, and `~` at the beginning of a path is replaced by home,
// which the helper does not know. It returns an error for params that are not an
// object, and errors of pathuri.
func AppendRequest(b []byte, operation string, params []byte, home string) ([]byte, error) {
	b = append(b, `{"operation":`...)
	b = jsonwire.AppendString(b, operation)
	b = append(b, `,"params":{`...)
	first := true
	r := jsonwire.NewCheckedReader(params)
	err := r.Object("an object", func(name []byte) error {
		value := r.Raw
		switch string(name) {
		case "sandbox":
			return r.Skip()
		case "path", "sourcePath", "destinationPath":
			value = func() ([]byte, error) { return rawPath(r, home) }
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = jsonwire.AppendString(b, name)
		b = append(b, ':')
		raw, err := value()
		at := len(b)
		b = append(b, raw...)
		if err == nil && (raw[0] == '{' || raw[0] == '[') {
			joinLines(b[at:])
		}
		return err
	})
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return nil, fmt.Errorf("params of %s: %w", operation, err)
	}
	return append(b, "}}\n"...), nil
}

// joinLines replaces the line ends of a JSON text, whose strings contain none.
func joinLines(b []byte) {
	for i, c := range b {
		if c == '\n' || c == '\r' {
			b[i] = ' '
		}
	}
}

// rawPath is the JSON text of a path without `~`.
func rawPath(r *jsonwire.Reader, home string) ([]byte, error) {
	if r.Peek() != jsonwire.String {
		return r.Raw()
	}
	path, err := r.String()
	if err != nil {
		return nil, err
	}
	if path == "~" || strings.HasPrefix(path, "~/") {
		if path, err = pathuri.Parse(path, home); err != nil {
			return nil, err
		}
		path = pathuri.Format(path)
	}
	return jsonwire.AppendString(nil, path), nil
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
