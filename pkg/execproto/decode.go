package execproto

import (
	"errors"

	"codex.internal/pkg/wire/jsonwire"
)

// The functions below decode the params of one request or client's notification
// each. A nil src means that the params are absent. Their errors are for the
// client, with code CodeInvalidParams. Byte slices in the result alias src, in
// which base64 members are decoded in place: src must not be changed while the
// result is used, and is no longer JSON.

// DecodeInitialize decodes the params of initialize.
func DecodeInitialize(src []byte) (InitializeParams, error) {
	var p InitializeParams
	err := params(src,
		need("clientName", text(&p.ClientName)),
		orNull("resumeSessionId", pointer(&p.ResumeSessionID, text[string])),
		orNull("takeOver", boolean(&p.TakeOver)))
	return p, err
}

func envPolicy(p *EnvPolicy) func(*jsonwire.Reader) error {
	return nested(
		need("inherit", choice(&p.Inherit, "all", "core", "none")),
		need("ignoreDefaultExcludes", boolean(&p.IgnoreDefaultExcludes)),
		need("exclude", list(&p.Exclude, text[string])),
		need("set", stringMap(&p.Set)),
		need("includeOnly", list(&p.IncludeOnly, text[string])))
}

func startMetadata(p *StartMetadata) func(*jsonwire.Reader) error {
	return nested(
		orNull("threadId", text(&p.ThreadID)),
		orNull("toolCallId", text(&p.ToolCallID)))
}

func terminalSize(p *TerminalSize) func(*jsonwire.Reader) error {
	return nested(
		need("rows", uint16s(&p.Rows)),
		need("cols", uint16s(&p.Cols)))
}

var (
	errNoArgv    = errors.New("argv must not be empty")
	errNoWriteID = errors.New("writeId must not be empty")
)

// DecodeStart decodes the params of process/start.
func DecodeStart(src []byte) (StartParams, error) {
	var p StartParams
	err := params(src,
		need("processId", text(&p.ProcessID)),
		need("argv", list(&p.Argv, text[string])),
		need("cwd", text(&p.Cwd)),
		need("env", stringMap(&p.Env)),
		need("tty", boolean(&p.TTY)),
		orNull("arg0", pointer(&p.Arg0, text[string])),
		maybe("pipeStdin", boolean(&p.PipeStdin)),
		orNull("envPolicy", pointer(&p.EnvPolicy, envPolicy)),
		orNull("sandbox", rawJSON(&p.Sandbox)),
		maybe("enforceManagedNetwork", boolean(&p.EnforceManagedNetwork)),
		orNull("metadata", pointer(&p.Metadata, startMetadata)),
		orNull("size", pointer(&p.Size, terminalSize)),
		orNull("outputWindow", uint64s(&p.OutputWindow)))
	if err == nil && len(p.Argv) == 0 {
		err = errNoArgv
	}
	return p, err
}

// DecodeRead decodes the params of process/read.
func DecodeRead(src []byte) (ReadParams, error) {
	var p ReadParams
	err := params(src,
		need("processId", text(&p.ProcessID)),
		orNull("afterSeq", pointer(&p.AfterSeq, uint64s)),
		orNull("maxBytes", pointer(&p.MaxBytes, uint64s)),
		orNull("waitMs", pointer(&p.WaitMS, uint64s)))
	return p, err
}

// DecodeWrite decodes the params of process/write.
func DecodeWrite(src []byte) (WriteParams, error) {
	var p WriteParams
	err := params(src,
		need("processId", text(&p.ProcessID)),
		need("chunk", base64Bytes(&p.Chunk)),
		orNull("writeId", pointer(&p.WriteID, text[string])))
	if err == nil && p.WriteID != nil && *p.WriteID == "" {
		err = errNoWriteID
	}
	return p, err
}

// DecodeProcessAck decodes the params of process/ack.
func DecodeProcessAck(src []byte) (ProcessAck, error) {
	var p ProcessAck
	err := params(src,
		need("processId", text(&p.ProcessID)),
		need("seq", uint64s(&p.Seq)))
	return p, err
}

// DecodeSignal decodes the params of process/signal.
func DecodeSignal(src []byte) (SignalParams, error) {
	var p SignalParams
	err := params(src,
		need("processId", text(&p.ProcessID)),
		need("signal", choice(&p.Signal, SignalInterrupt, SignalTerminate, SignalKill,
			SignalHangup, SignalQuit, SignalUSR1, SignalUSR2)))
	return p, err
}

// DecodeProcess decodes the params of process/terminate and
// process/closeStdin.
func DecodeProcess(src []byte) (ProcessParams, error) {
	var p ProcessParams
	err := params(src, need("processId", text(&p.ProcessID)))
	return p, err
}

// DecodeResize decodes the params of process/resize.
func DecodeResize(src []byte) (ResizeParams, error) {
	var p ResizeParams
	err := params(src,
		need("processId", text(&p.ProcessID)),
		need("rows", uint16s(&p.Rows)),
		need("cols", uint16s(&p.Cols)))
	return p, err
}

// DecodePath decodes the params of fs/canonicalize and fs/readDirectory.
func DecodePath(src []byte) (PathParams, error) {
	var p PathParams
	err := params(src,
		need("path", text(&p.Path)),
		orNull("sandbox", rawJSON(&p.Sandbox)))
	return p, err
}

// DecodeLinkPath decodes the params of fs/readFile and fs/getMetadata.
func DecodeLinkPath(src []byte) (LinkPathParams, error) {
	var p LinkPathParams
	err := params(src,
		need("path", text(&p.Path)),
		orNull("followSymlinks", pointer(&p.FollowSymlinks, boolean)),
		orNull("sandbox", rawJSON(&p.Sandbox)))
	return p, err
}

// DecodeOpen decodes the params of fs/open.
func DecodeOpen(src []byte) (OpenParams, error) {
	p := OpenParams{Mode: OpenRead}
	err := params(src,
		need("handleId", text(&p.HandleID)),
		need("path", text(&p.Path)),
		orNull("mode", choice(&p.Mode, OpenRead, OpenReplace)),
		orNull("atomic", boolean(&p.Atomic)),
		orNull("sandbox", rawJSON(&p.Sandbox)))
	return p, err
}

// DecodeReadBlock decodes the params of fs/readBlock.
func DecodeReadBlock(src []byte) (ReadBlockParams, error) {
	var p ReadBlockParams
	err := params(src,
		need("handleId", text(&p.HandleID)),
		need("offset", uint64s(&p.Offset)),
		need("len", uint64s(&p.Len)))
	return p, err
}

// DecodeWriteBlock decodes the params of fs/writeBlock.
func DecodeWriteBlock(src []byte) (WriteBlockParams, error) {
	var p WriteBlockParams
	err := params(src,
		need("handleId", text(&p.HandleID)),
		need("offset", uint64s(&p.Offset)),
		need("chunk", base64Bytes(&p.Chunk)))
	return p, err
}

// DecodeHandle decodes the params of fs/close.
func DecodeHandle(src []byte) (HandleParams, error) {
	var p HandleParams
	err := params(src, need("handleId", text(&p.HandleID)))
	return p, err
}

// DecodeWriteFile decodes the params of fs/writeFile. DataBase64 aliases src.
func DecodeWriteFile(src []byte) (WriteFileParams, error) {
	var p WriteFileParams
	err := params(src,
		need("path", text(&p.Path)),
		need("dataBase64", func(r *jsonwire.Reader) error {
			b, err := r.StringBytes()
			p.DataBase64 = b
			return err
		}),
		orNull("followSymlinks", pointer(&p.FollowSymlinks, boolean)),
		orNull("sandbox", rawJSON(&p.Sandbox)))
	return p, err
}

// DecodeCreateDirectory decodes the params of fs/createDirectory.
func DecodeCreateDirectory(src []byte) (CreateDirectoryParams, error) {
	var p CreateDirectoryParams
	err := params(src,
		need("path", text(&p.Path)),
		orNull("recursive", pointer(&p.Recursive, boolean)),
		orNull("followSymlinks", pointer(&p.FollowSymlinks, boolean)),
		orNull("sandbox", rawJSON(&p.Sandbox)))
	return p, err
}

// DecodeRemove decodes the params of fs/remove.
func DecodeRemove(src []byte) (RemoveParams, error) {
	var p RemoveParams
	err := params(src,
		need("path", text(&p.Path)),
		orNull("recursive", pointer(&p.Recursive, boolean)),
		orNull("force", pointer(&p.Force, boolean)),
		orNull("followSymlinks", pointer(&p.FollowSymlinks, boolean)),
		orNull("sandbox", rawJSON(&p.Sandbox)))
	return p, err
}

// DecodeCopy decodes the params of fs/copy.
func DecodeCopy(src []byte) (CopyParams, error) {
	var p CopyParams
	err := params(src,
		need("sourcePath", text(&p.SourcePath)),
		need("destinationPath", text(&p.DestinationPath)),
		need("recursive", boolean(&p.Recursive)),
		orNull("sandbox", rawJSON(&p.Sandbox)))
	return p, err
}

// DecodeWalk decodes the params of fs/walk.
func DecodeWalk(src []byte) (WalkParams, error) {
	var p WalkParams
	o := &p.Options
	err := params(src,
		need("path", text(&p.Path)),
		need("options", nested(
			need("maxDepth", uint64s(&o.MaxDepth)),
			need("maxDirectories", uint64s(&o.MaxDirectories)),
			need("maxEntries", uint64s(&o.MaxEntries)),
			need("followDirectorySymlinks", boolean(&o.FollowDirectorySymlinks)),
			orNull("pruneHiddenDirectories", boolean(&o.PruneHiddenDirectories)))),
		orNull("sandbox", rawJSON(&p.Sandbox)))
	return p, err
}

func httpHeader(h *HTTPHeader) func(*jsonwire.Reader) error {
	return nested(
		need("name", text(&h.Name)),
		need("value", text(&h.Value)),
		orNull("valueEnvVar", pointer(&h.ValueEnvVar, text)))
}

// DecodeHTTPRequest decodes the params of http/request.
func DecodeHTTPRequest(src []byte) (HTTPRequestParams, error) {
	p := HTTPRequestParams{RedirectPolicy: RedirectFollow}
	err := params(src,
		need("method", text(&p.Method)),
		need("url", text(&p.URL)),
		maybe("headers", list(&p.Headers, httpHeader)),
		orNull("bodyBase64", base64Bytes(&p.Body)),
		orNull("timeoutMs", pointer(&p.TimeoutMS, uint64s)),
		need("requestId", text(&p.RequestID)),
		maybe("streamResponse", boolean(&p.StreamResponse)),
		orNull("redirectPolicy", choice(&p.RedirectPolicy, RedirectFollow, RedirectStop)),
		orNull("deltaWindow", uint64s(&p.DeltaWindow)))
	return p, err
}

// DecodeHTTPAck decodes the params of http/request/ack.
func DecodeHTTPAck(src []byte) (HTTPAck, error) {
	var p HTTPAck
	err := params(src,
		need("requestId", text(&p.RequestID)),
		need("seq", uint64s(&p.Seq)))
	return p, err
}

// The functions below decode notifications for a client, with the same rules.

// DecodeOutputNotification decodes the params of process/output.
func DecodeOutputNotification(src []byte) (OutputNotification, error) {
	var p OutputNotification
	err := params(src,
		need("processId", text(&p.ProcessID)),
		need("seq", uint64s(&p.Seq)),
		need("stream", choice(&p.Stream, Stdout, Stderr, PTY)),
		need("chunk", base64Bytes(&p.Chunk)))
	return p, err
}

// DecodeExitedNotification decodes the params of process/exited.
func DecodeExitedNotification(src []byte) (ExitedNotification, error) {
	var p ExitedNotification
	err := params(src,
		need("processId", text(&p.ProcessID)),
		need("seq", uint64s(&p.Seq)),
		need("exitCode", func(r *jsonwire.Reader) error {
			n, err := r.Int64("i32")
			p.ExitCode = int(n)
			return err
		}),
		orNull("sandboxDenied", boolean(&p.SandboxDenied)))
	return p, err
}

// DecodeClosedNotification decodes the params of process/closed.
func DecodeClosedNotification(src []byte) (ClosedNotification, error) {
	var p ClosedNotification
	err := params(src,
		need("processId", text(&p.ProcessID)),
		need("seq", uint64s(&p.Seq)))
	return p, err
}

// DecodeBodyDelta decodes the params of http/request/bodyDelta.
func DecodeBodyDelta(src []byte) (HTTPBodyDelta, error) {
	var p HTTPBodyDelta
	err := params(src,
		need("requestId", text(&p.RequestID)),
		need("seq", uint64s(&p.Seq)),
		need("deltaBase64", base64Bytes(&p.Delta)),
		orNull("done", boolean(&p.Done)),
		orNull("error", pointer(&p.Error, text[string])))
	return p, err
}
