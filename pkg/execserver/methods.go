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

// methods is every request that the server answers.
var methods map[string]row

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
	methods = map[string]row{
		execproto.MethodInitialize: plain("", laneReader, execproto.DecodeInitialize, initialize),

		execproto.MethodEnvironmentInfo:   plain(familyEnvironment, laneControl, empty, environmentInfo),
		execproto.MethodEnvironmentStatus: plain(familyEnvironment, laneReader, empty, environmentStatus),

		execproto.MethodProcessStart:      admitted(familyExec, laneOrdinary, execproto.DecodeStart, processStart),
		execproto.MethodProcessRead:       admitted(familyExec, laneWaiting, execproto.DecodeRead, processRead),
		execproto.MethodProcessWrite:      byProcess(laneWaiting, execproto.DecodeWrite, writeID, processWrite),
		execproto.MethodProcessCloseStdin: byProcess(laneWaiting, execproto.DecodeProcess, processID, processCloseStdin),
		execproto.MethodProcessResize:     byProcess(laneControl, execproto.DecodeResize, resizeID, processResize),
		execproto.MethodProcessSignal:     byProcess(laneControl, execproto.DecodeSignal, signalID, processSignal),
		execproto.MethodProcessTerminate:  admitted(familyExec, laneControl, execproto.DecodeProcess, processTerminate),
		execproto.MethodProcessList:       plain(familyExec, laneReader, empty, processList),

		execproto.MethodFSReadFile:        filePath(execproto.MethodFSReadFile, execproto.DecodeLinkPath, fsReadFile),
		execproto.MethodFSWriteFile:       filePath(execproto.MethodFSWriteFile, execproto.DecodeWriteFile, fsWriteFile),
		execproto.MethodFSCreateDirectory: filePath(execproto.MethodFSCreateDirectory, execproto.DecodeCreateDirectory, fsCreateDirectory),
		execproto.MethodFSGetMetadata:     filePath(execproto.MethodFSGetMetadata, execproto.DecodeLinkPath, fsGetMetadata),
		execproto.MethodFSCanonicalize:    filePath(execproto.MethodFSCanonicalize, execproto.DecodePath, fsCanonicalize),
		execproto.MethodFSReadDirectory:   filePath(execproto.MethodFSReadDirectory, execproto.DecodePath, fsReadDirectory),
		execproto.MethodFSRemove:          filePath(execproto.MethodFSRemove, execproto.DecodeRemove, fsRemove),
		execproto.MethodFSCopy:            filePath(execproto.MethodFSCopy, execproto.DecodeCopy, fsCopy),
		execproto.MethodFSWalk:            filePath(execproto.MethodFSWalk, execproto.DecodeWalk, fsWalk),
		execproto.MethodFSOpen:            byHandle(laneOrdinary, keepJSON(execproto.MethodFSOpen, execproto.DecodeOpen), openID, fsOpen),
		execproto.MethodFSReadBlock:       byHandle(laneOrdinary, execproto.DecodeReadBlock, readBlockID, fsReadBlock),
		execproto.MethodFSWriteBlock:      byHandle(laneOrdinary, execproto.DecodeWriteBlock, writeBlockID, fsWriteBlock),
		execproto.MethodFSClose:           byHandle(laneControl, execproto.DecodeHandle, handleID, fsClose),

		execproto.MethodHTTPRequest: admitted(familyHTTP, laneWaiting, execproto.DecodeHTTPRequest, httpRequest),
	}
}

// The ids of the process or the file handle that params name.
func processID(p *execproto.ProcessParams) string       { return p.ProcessID }
func writeID(p *execproto.WriteParams) string           { return p.ProcessID }
func resizeID(p *execproto.ResizeParams) string         { return p.ProcessID }
func signalID(p *execproto.SignalParams) string         { return p.ProcessID }
func handleID(p *execproto.HandleParams) string         { return p.HandleID }
func openID(p *fileParams[execproto.OpenParams]) string { return p.params.HandleID }
func readBlockID(p *execproto.ReadBlockParams) string   { return p.HandleID }
func writeBlockID(p *execproto.WriteBlockParams) string { return p.HandleID }
