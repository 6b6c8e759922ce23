package fshelper

import (
	"bytes"
	"errors"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/jsonwire"
)

// results has the types of the operations' results. Every other operation has the result {}.
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

// checkResponse returns an error if the response is not a single line, or does not have the
// members of the operation's result. The response is valid JSON.
func checkResponse(response []byte, operation string) error {
	result := results[operation]
	if result == nil {
		result = &execproto.Empty{}
	}
	if err := jsonwire.Check(response, result); err != nil {
		return err
	}
	// The server copies the response into its own answer, which must be one line.
	if bytes.IndexByte(response, '\n') >= 0 || bytes.IndexByte(response, '\r') >= 0 {
		return errTwoLines
	}
	return nil
}
