//go:build linux || darwin

package execserver

import "codex.internal/pkg/execproto"

// The families of methods, as the errors of the handshake name them
// (docs/spec/wire.md §3.1).
const (
	familyExec        = "exec"
	familyFilesystem  = "filesystem"
	familyEnvironment = "environment info"
	familyHTTP        = "http"
)

// methods is every request that the server answers. Which lane a request runs
// in and what it is ordered with stands in its handler.
var methods map[string]method

// extensions are the names that initialize announces (docs/spec/wire.md §8.2).
var extensions = []string{
	execproto.MethodProcessCloseStdin,
	execproto.MethodProcessResize,
	execproto.MethodProcessList,
	execproto.NotifyProcessAck,
	execproto.NotifyHTTPAck,
	execproto.ExtensionTakeOver,
}

// notifications is every notification of a client but initialized, which
// moves the handshake on.
var notifications map[string]notification

// The tables are filled here and not in their declarations because handlers
// reach them again through the connection.
func init() {
	notifications = map[string]notification{
		execproto.NotifyProcessAck: notify(familyExec, execproto.DecodeProcessAck, processAck),
		execproto.NotifyHTTPAck:    notify(familyHTTP, execproto.DecodeHTTPAck, httpAck),
	}
	methods = map[string]method{
		execproto.MethodInitialize: handle("", execproto.DecodeInitialize, initialize),

		execproto.MethodEnvironmentInfo:   handleEmpty(familyEnvironment, environmentInfo),
		execproto.MethodEnvironmentStatus: handleEmpty(familyEnvironment, environmentStatus),

		execproto.MethodProcessStart:      handle(familyExec, execproto.DecodeStart, processStart),
		execproto.MethodProcessRead:       handle(familyExec, execproto.DecodeRead, processRead),
		execproto.MethodProcessWrite:      handle(familyExec, execproto.DecodeWrite, processWrite),
		execproto.MethodProcessCloseStdin: handle(familyExec, execproto.DecodeProcess, processCloseStdin),
		execproto.MethodProcessResize:     handle(familyExec, execproto.DecodeResize, processResize),
		execproto.MethodProcessSignal:     handle(familyExec, execproto.DecodeSignal, processSignal),
		execproto.MethodProcessTerminate:  handle(familyExec, execproto.DecodeProcess, processTerminate),
		execproto.MethodProcessList:       handleEmpty(familyExec, processList),

		execproto.MethodFSReadFile:        handle(familyFilesystem, execproto.DecodeLinkPath, fsReadFile),
		execproto.MethodFSWriteFile:       handle(familyFilesystem, execproto.DecodeWriteFile, fsWriteFile),
		execproto.MethodFSCreateDirectory: handle(familyFilesystem, execproto.DecodeCreateDirectory, fsCreateDirectory),
		execproto.MethodFSGetMetadata:     handle(familyFilesystem, execproto.DecodeLinkPath, fsGetMetadata),
		execproto.MethodFSCanonicalize:    handle(familyFilesystem, execproto.DecodePath, fsCanonicalize),
		execproto.MethodFSReadDirectory:   handle(familyFilesystem, execproto.DecodePath, fsReadDirectory),
		execproto.MethodFSRemove:          handle(familyFilesystem, execproto.DecodeRemove, fsRemove),
		execproto.MethodFSCopy:            handle(familyFilesystem, execproto.DecodeCopy, fsCopy),
		execproto.MethodFSWalk:            handle(familyFilesystem, execproto.DecodeWalk, fsWalk),
		execproto.MethodFSOpen:            handle(familyFilesystem, execproto.DecodeOpen, fsOpen),
		execproto.MethodFSReadBlock:       handle(familyFilesystem, execproto.DecodeReadBlock, fsReadBlock),
		execproto.MethodFSWriteBlock:      handle(familyFilesystem, execproto.DecodeWriteBlock, fsWriteBlock),
		execproto.MethodFSClose:           handle(familyFilesystem, execproto.DecodeHandle, fsClose),

		execproto.MethodHTTPRequest: handle(familyHTTP, execproto.DecodeHTTPRequest, httpRequest),
	}
}
