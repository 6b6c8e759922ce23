package execserver

import (
	"fmt"
	"slices"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/files"
	"codex.internal/pkg/fileop/fsops"
)

// The families of methods, with their names in the errors of the handshake
// (docs/spec/wire.md §3.1).
const (
	familyExec        = "exec"
	familyFilesystem  = "filesystem"
	familyEnvironment = "environment info"
	familyConfig      = "environment config"
	familyHTTP        = "http"
	familyCapability  = "capability discovery"
	familyTunnel      = "tunnel"
)

// methods has a row for every request that the server answers. The rows of methods about paths
// come from the table of fsops.
var methods map[string]row

// detachExtensions are the extensions of servers with detached processes.
var detachExtensions = []string{
	execproto.ExtensionDetach,
	execproto.MethodProcessDetached,
	execproto.MethodProcessForget,
}

// extensions returns the names that initialize announces.
func (srv *Server) extensions() []string {
	if srv.detached == nil {
		return extensions
	}
	return append(slices.Clone(extensions), detachExtensions...)
}

// extensions are the names that initialize announces (docs/spec/wire.md §8.2), without
// detachExtensions.
var extensions = []string{
	execproto.MethodProcessCloseStdin,
	execproto.MethodProcessResize,
	execproto.MethodProcessList,
	execproto.NotifyProcessAck,
	execproto.NotifyHTTPAck,
	execproto.ExtensionTakeOver,
	execproto.MethodFSOpenArchive,
	execproto.MethodTunnelOpen,
	execproto.MethodTunnelListen,
	execproto.MethodTunnelUnlisten,
	execproto.MethodTunnelResume,
	execproto.ExtensionLimits,
	execproto.ExtensionUsage,
	execproto.ExtensionEndOthers,
	execproto.ExtensionOutputTimes,
	execproto.ExtensionTunnelProcess,
	execproto.ExtensionTunnelProcessPath,
	execproto.ExtensionRemoveLink,
	execproto.ExtensionEntryAttributes,
}

// notifications has every notification of a client except initialized, which the handshake
// handles.
var notifications map[string]notification

// The tables are filled here and not in their declarations, because handlers
// refer to them through the connection, which would be an initialization cycle.
func init() {
	notifications = map[string]notification{
		execproto.NotifyProcessAck: notify(familyExec, execproto.Decode, processAck),
		execproto.NotifyHTTPAck:    notify(familyHTTP, execproto.Decode, httpAck),

		execproto.NotifyTunnelData:  notify(familyTunnel, execproto.Decode, tunnelData),
		execproto.NotifyTunnelAck:   notify(familyTunnel, execproto.Decode, tunnelAck),
		execproto.NotifyTunnelClose: notify(familyTunnel, execproto.Decode, tunnelClose),
	}
	methods = map[string]row{
		execproto.MethodInitialize: plain("", laneReader, execproto.Decode, initialize),

		execproto.MethodEnvironmentInfo:   plain(familyEnvironment, laneControl, empty, environmentInfo),
		execproto.MethodEnvironmentStatus: plain(familyEnvironment, laneReader, empty, environmentStatus),

		execproto.MethodEnvironmentConfigRead: plain(familyConfig, laneOrdinary, execproto.Decode, environmentConfigRead),

		execproto.MethodProcessStart:      admitted(familyExec, laneOrdinary, execproto.Decode, processStart),
		execproto.MethodProcessRead:       admitted(familyExec, laneWaiting, execproto.Decode, processRead),
		execproto.MethodProcessWrite:      byProcess(execproto.Decode, writeID, processWrite, writeDetached),
		execproto.MethodProcessCloseStdin: byProcess(execproto.Decode, processID, processCloseStdin, closeStdinDetached),
		execproto.MethodProcessResize:     byProcess(execproto.Decode, resizeID, processResize, resizeDetached),
		execproto.MethodProcessSignal:     admitted(familyExec, laneReader, execproto.Decode, processSignal),
		execproto.MethodProcessTerminate:  admitted(familyExec, laneControl, execproto.Decode, processTerminate),
		execproto.MethodProcessList:       admitted(familyExec, laneReader, execproto.DecodeList, processList),

		execproto.MethodProcessDetached: plain(familyExec, laneWaiting, execproto.DecodeList, listDetached),
		execproto.MethodProcessForget:   admitted(familyExec, laneWaiting, execproto.Decode, forget),

		execproto.MethodFSOpen:        bySequence(laneOrdinary, ofHandles, files.DecodeOpen, openID, (*files.Files).Open),
		execproto.MethodFSOpenArchive: bySequence(laneOrdinary, ofHandles, files.DecodeArchive, archiveID, (*files.Files).OpenArchive),

		execproto.MethodFSReadBlock:  bySequence(laneOrdinary, ofHandles, execproto.Decode, readBlockID, (*files.Files).ReadBlock),
		execproto.MethodFSWriteBlock: bySequence(laneOrdinary, ofHandles, execproto.Decode, writeBlockID, (*files.Files).WriteBlock),
		execproto.MethodFSClose:      bySequence(laneControl, ofHandles, execproto.Decode, handleID, (*files.Files).CloseHandle),

		execproto.MethodFSWatchMissing: admitted(familyFilesystem, laneOrdinary, execproto.Decode, fsWatchMissing),
		execproto.MethodFSWatch:        bySequence(laneOrdinary, ofWatches, files.DecodeWatch, watchID, (*files.Files).Watch),
		execproto.MethodFSUnwatch:      bySequence(laneControl, ofWatches, execproto.Decode, unwatchID, (*files.Files).Unwatch),

		execproto.MethodCapabilityRootsDiscover: plain(familyCapability, laneOrdinary, execproto.Decode, ofFiles((*files.Files).DiscoverRoots)),
		execproto.MethodCapabilitiesDiscover:    plain(familyCapability, laneOrdinary, execproto.Decode, ofFiles((*files.Files).DiscoverInstalled)),

		execproto.MethodHTTPRequest: admitted(familyHTTP, laneWaiting, execproto.Decode, httpRequest),

		execproto.MethodTunnelOpen:     admitted(familyTunnel, laneWaiting, execproto.Decode, tunnelOpen),
		execproto.MethodTunnelListen:   plain(familyTunnel, laneOrdinary, execproto.Decode, tunnelListen),
		execproto.MethodTunnelUnlisten: plain(familyTunnel, laneControl, execproto.Decode, tunnelUnlisten),
		execproto.MethodTunnelResume:   plain(familyTunnel, laneOrdinary, execproto.Decode, tunnelResume),

		execproto.MethodTunnelWatchPorts: admitted(familyTunnel, laneOrdinary, execproto.Decode, watchPorts),
		execproto.MethodTunnelUnwatch:    admitted(familyTunnel, laneControl, execproto.Decode, unwatchPorts),
	}
	extensions = append(extensions, execproto.MethodTunnelWatchPorts, execproto.MethodFSWatch)
	addFileOperations()
}

// addFileOperations adds the operations of fsops to the methods, and to the extensions.
func addFileOperations() {
	for i := range fsops.Operations() {
		operation := &fsops.Operations()[i]
		if operation.Part {
			continue
		}
		methods[operation.Method] = plain(familyFilesystem, laneOrdinary, files.DecoderOf(operation), ofFiles((*files.Files).Run))
		if operation.Extension {
			extensions = append(extensions, operation.Method)
		}
	}
}

// These functions return the id of the process, the file handle or the watch that params name.
func processID(p *execproto.ProcessParams) string       { return p.ProcessID }
func writeID(p *execproto.WriteParams) string           { return p.ProcessID }
func resizeID(p *execproto.ResizeParams) string         { return p.ProcessID }
func handleID(p *execproto.HandleParams) string         { return p.HandleID }
func openID(p *files.OpenRequest) string                { return p.HandleID }
func archiveID(p *files.ArchiveRequest) string          { return p.HandleID }
func readBlockID(p *execproto.ReadBlockParams) string   { return p.HandleID }
func writeBlockID(p *execproto.WriteBlockParams) string { return p.HandleID }
func watchID(p *files.WatchRequest) string              { return fmt.Sprint(p.WatchID) }
func unwatchID(p *execproto.UnwatchParams) string       { return fmt.Sprint(p.WatchID) }
