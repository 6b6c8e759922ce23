package fsops

import (
	"context"
	"encoding/json"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/pathuri"
)

// Operation is one row of the table of file operations. The server and the helper
// have no other list of them.
type Operation struct {
	Method string
	// ReadOnly means that the operation changes no file. The server confines it with a
	// read-only profile. That is stricter than the requested profile and cheaper: the launcher
	// needs no placeholders for paths that must not be created.
	ReadOnly bool
	// Extension means that Codex CLI does not have the operation: initialize announces it.
	Extension bool
	// Part means that the operation is a part of a request. The server divides the request by
	// sandboxes, and has a row of its own for the method.
	Part bool

	decode func(params []byte) (Call, error)
}

// operations has every file operation that is a single request. Operations about handles are in
// handle.go.
var operations = [...]Operation{
	{Method: execproto.MethodFSReadFile, ReadOnly: true, decode: readFile},
	{Method: execproto.MethodFSWriteFile, decode: writeFile},
	{Method: execproto.MethodFSCreateDirectory, decode: createDirectory},
	{Method: execproto.MethodFSGetMetadata, ReadOnly: true, decode: getMetadata},
	{Method: execproto.MethodFSCanonicalize, ReadOnly: true, decode: canonicalize},
	{Method: execproto.MethodFSReadDirectory, ReadOnly: true, decode: readDirectory},
	{Method: execproto.MethodFSRemove, decode: remove},
	{Method: execproto.MethodFSCopy, decode: copyPath},
	{Method: execproto.MethodFSRename, Extension: true, decode: rename},
	{Method: execproto.MethodFSGetAttributes, ReadOnly: true, Extension: true, decode: getAttributes},
	{Method: execproto.MethodFSListAttributes, ReadOnly: true, Extension: true, decode: listAttributes},
	{Method: execproto.MethodFSSetAttributes, Extension: true, decode: setAttributes},
	{Method: execproto.MethodFSSymlink, Extension: true, decode: symlink},
	{Method: execproto.MethodFSWalk, ReadOnly: true, decode: walk},
	{Method: execproto.MethodCapabilityRootsDiscover, ReadOnly: true, Part: true, decode: discoverRoots},
}

// Operations returns the table, which must not be changed.
func Operations() []Operation { return operations[:] }

// Find returns the row of a method, or nil.
func Find(method string) *Operation {
	for i := range operations {
		if operations[i].Method == method {
			return &operations[i]
		}
	}
	return nil
}

// Decode decodes the params of the operation. Its error is one of the params. The call aliases
// params, which must not be changed while the call is used.
func (o *Operation) Decode(params []byte) (Call, error) { return o.decode(params) }

// Call is a decoded request. Resolve must be called before Run, and Run at most
// once: it may decode the params in place.
type Call struct {
	// Sandbox is the sandbox of the params as JSON; nil: none.
	Sandbox json.RawMessage

	paths []string // as in the params; native after Resolve
	run   func(ctx context.Context, paths []string, confined bool) (Result, error)
}

// Resolve replaces the paths of the request by native ones. home is the directory that replaces
// `~` at the beginning of a path; if home is "", such a path is an error. Errors are those of
// pathuri.Parse.
func (c *Call) Resolve(home string) error {
	for i, path := range c.paths {
		native, err := pathuri.Parse(path, home)
		if err != nil {
			return err
		}
		c.paths[i] = native
	}
	return nil
}

// Paths returns the paths of the request, which are native after Resolve.
func (c *Call) Paths() []string { return c.paths }

// Run carries out the request in this process. confined is as in files.Options. The function
// Error adds a code to an error. Long operations stop soon after ctx ends.
func (c *Call) Run(ctx context.Context, confined bool) (Result, error) {
	return c.run(ctx, c.paths, confined)
}

// Result is the result of a request: a value to encode, or the contents of a file.
// One of the two is set.
type Result struct {
	Value   Appender
	Content *Content
}

// Appender is a value that encodes itself as JSON.
type Appender interface {
	AppendJSON(b []byte) []byte
}
