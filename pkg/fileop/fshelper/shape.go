package fshelper

import (
	"bytes"
	"errors"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/jsonwire"
)

// results are the results of the operations. The result of any other operation
// is {}.
var results = map[string]execproto.Object{
	execproto.MethodFSReadFile:      &execproto.ReadFileResult{},
	execproto.MethodFSOpen:          &execproto.OpenResult{},
	execproto.MethodFSOpenArchive:   &execproto.OpenResult{},
	execproto.MethodFSReadBlock:     &execproto.ReadBlockResult{},
	execproto.MethodFSWriteBlock:    &execproto.WriteBlockResult{},
	execproto.MethodFSClose:         &execproto.WriteBlockResult{},
	execproto.MethodFSGetMetadata:   &execproto.Metadata{},
	execproto.MethodFSCanonicalize:  &execproto.PathResult{},
	execproto.MethodFSReadDirectory: &execproto.ReadDirectoryResult{},
	execproto.MethodFSCopy:          &execproto.CopyResult{},
	execproto.MethodFSWalk:          &execproto.WalkResult{},

	execproto.MethodFSGetAttributes:  &execproto.Attributes{},
	execproto.MethodFSListAttributes: &execproto.ListAttributesResult{},

	execproto.MethodCapabilityRootsDiscover: &execproto.DiscoverResult{},

	// After its answer to fs/watch, a helper sends lines in the form of answers to this
	// operation.
	execproto.NotifyFSChanged: &execproto.Changed{},
}

var errTwoLines = errors.New("the answer has more than one line")

// checkResponse returns an error unless the response, which is JSON, is one line
// and has the members of the operation's result.
func checkResponse(response []byte, operation string) error {
	result := results[operation]
	if result == nil {
		result = &execproto.Empty{}
	}
	if err := jsonwire.Check(response, result); err != nil {
		return err
	}
	// A line end in it would also be one in the server's answer. The strings
	// have been checked and contain none, so a long one is not searched.
	const begin, end = `{"dataBase64":"`, `"}`
	if operation == execproto.MethodFSReadFile && bytes.HasPrefix(response, []byte(begin)) && bytes.HasSuffix(response, []byte(end)) {
		return nil
	}
	if bytes.IndexByte(response, '\n') >= 0 || bytes.IndexByte(response, '\r') >= 0 {
		return errTwoLines
	}
	return nil
}
