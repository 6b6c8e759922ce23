//go:build linux || darwin

package fshelper

import (
	"bytes"
	"errors"
	"fmt"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/clip"
	"codex.internal/pkg/wire/jsonwire"
)

// member is one member of a result. An array has elements of the given shape.
type member struct {
	name     string
	kind     jsonwire.Kind
	optional bool
	elements []member
}

// shapes describes the results of the operations, as AppendJSON of execproto
// encodes them. The result of any other operation is {}.
var shapes = map[string][]member{
	execproto.MethodFSReadFile: {{name: "dataBase64", kind: jsonwire.String}},
	execproto.MethodFSOpen:     {{name: "handleId", kind: jsonwire.String}},
	execproto.MethodFSReadBlock: {
		{name: "chunk", kind: jsonwire.String},
		{name: "eof", kind: jsonwire.Bool},
	},
	execproto.MethodFSGetMetadata: {
		{name: "isDirectory", kind: jsonwire.Bool},
		{name: "isFile", kind: jsonwire.Bool},
		{name: "isSymlink", kind: jsonwire.Bool},
		{name: "size", kind: jsonwire.Number},
		{name: "createdAtMs", kind: jsonwire.Number},
		{name: "modifiedAtMs", kind: jsonwire.Number},
	},
	execproto.MethodFSCanonicalize: {{name: "path", kind: jsonwire.String}},
	execproto.MethodFSReadDirectory: {{name: "entries", kind: jsonwire.Array, elements: []member{
		{name: "fileName", kind: jsonwire.String},
		{name: "isDirectory", kind: jsonwire.Bool},
		{name: "isFile", kind: jsonwire.Bool},
		{name: "isLossy", kind: jsonwire.Bool, optional: true},
	}}},
	execproto.MethodFSWalk: {
		{name: "entries", kind: jsonwire.Array, elements: []member{
			{name: "path", kind: jsonwire.String},
			{name: "kind", kind: jsonwire.String},
		}},
		{name: "errors", kind: jsonwire.Array, elements: []member{
			{name: "path", kind: jsonwire.String},
			{name: "message", kind: jsonwire.String},
		}},
		{name: "truncated", kind: jsonwire.Bool},
	},
}

// checkResponse returns an error unless the response, which is JSON, is one line
// and has the members of the operation's result.
func checkResponse(response []byte, operation string) error {
	r := jsonwire.NewCheckedReader(response)
	if err := checkObject(r, shapes[operation]); err != nil {
		return err
	}
	// A line end would be one in the server's answer too. The strings have been
	// checked and contain none, so a long one is not searched.
	const begin, end = `{"dataBase64":"`, `"}`
	if operation == execproto.MethodFSReadFile && bytes.HasPrefix(response, []byte(begin)) && bytes.HasSuffix(response, []byte(end)) {
		return nil
	}
	if bytes.IndexByte(response, '\n') >= 0 || bytes.IndexByte(response, '\r') >= 0 {
		return errTwoLines
	}
	return nil
}

func checkObject(r *jsonwire.Reader, members []member) error {
	var seen uint
	err := r.Object("a result", func(name []byte) error {
		for i := range members {
			m := &members[i]
			if m.name != string(name) || seen&(1<<i) != 0 {
				continue
			}
			seen |= 1 << i
			return m.check(r)
		}
		return fmt.Errorf("unexpected field `%s`", clip.Text(string(name), 64))
	})
	if err != nil {
		return err
	}
	for i := range members {
		if !members[i].optional && seen&(1<<i) == 0 {
			return errors.New("missing field `" + members[i].name + "`")
		}
	}
	return nil
}

func (m *member) check(r *jsonwire.Reader) error {
	switch {
	case r.Peek() != m.kind:
		return errors.New("unexpected type of field `" + m.name + "`")
	case m.kind == jsonwire.Number: // an integer, of which only times are signed
		_, err := r.Int64("an integer")
		return err
	case m.kind == jsonwire.Array:
		return r.Array("an array", func() error { return checkObject(r, m.elements) })
	default:
		return r.Skip()
	}
}
