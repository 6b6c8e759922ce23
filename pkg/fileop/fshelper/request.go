//go:build linux || darwin

package fshelper

import (
	"fmt"
	"strings"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/jsonwire"
	"codex.internal/pkg/wire/pathuri"
)

// AppendRequest appends the request for an operation, with its newline. Params
// are those of the RPC as they came, an object that has been decoded once
// already: their sandbox is left out, and a path that begins with `~` is
// replaced, because the helper knows no home. The error is about params that
// are no object, or a pathuri error.
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

// joinLines makes one line of a JSON text: in strings there are no newlines.
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

// AppendReadBlock appends the line that asks the helper of a handle for a
// block of n bytes.
func AppendReadBlock(b []byte, offset, n uint64) []byte {
	b = append(b, `{"operation":"`+execproto.MethodFSReadBlock+`","params":{"offset":`...)
	b = jsonwire.AppendUint(b, offset)
	b = append(b, `,"len":`...)
	b = jsonwire.AppendUint(b, n)
	return append(b, "}}\n"...)
}

// AppendWriteBlock appends the line that hands the helper of a handle a block.
func AppendWriteBlock(b []byte, offset uint64, chunk []byte) []byte {
	b = append(b, `{"operation":"`+execproto.MethodFSWriteBlock+`","params":{"offset":`...)
	b = jsonwire.AppendUint(b, offset)
	b = append(b, `,"chunk":`...)
	b = jsonwire.AppendBase64String(b, chunk)
	return append(b, "}}\n"...)
}

// AppendClose appends the line that ends a handle.
func AppendClose(b []byte) []byte {
	return append(b, `{"operation":"`+execproto.MethodFSClose+`","params":{}}`+"\n"...)
}
