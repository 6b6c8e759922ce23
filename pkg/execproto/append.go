package execproto

import "codex.internal/pkg/wire/jsonwire"

// The methods below append the JSON text of one result each. Nil slices are
// encoded as [], and optional members are left out where Codex CLI's server
// leaves them out. Notifications are in notify.go.

func appendStrings(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonwire.AppendString(b, s)
	}
	return append(b, ']')
}

func appendCode(b []byte, code *int) []byte {
	if code == nil {
		return append(b, "null"...)
	}
	return jsonwire.AppendInt(b, int64(*code))
}

func appendOptional(b []byte, s *string) []byte {
	if s == nil {
		return append(b, "null"...)
	}
	return jsonwire.AppendString(b, *s)
}

// AppendJSON appends r.
func (r InitializeResult) AppendJSON(b []byte) []byte {
	b = append(b, `{"sessionId":`...)
	b = jsonwire.AppendString(b, r.SessionID)
	if r.Extensions != nil {
		b = append(b, `,"extensions":`...)
		b = appendStrings(b, r.Extensions)
	}
	if r.EnvironmentInfo != nil {
		b = append(b, `,"environmentInfo":`...)
		b = r.EnvironmentInfo.AppendJSON(b)
	}
	return append(b, '}')
}

// AppendJSON appends i.
func (i EnvironmentInfo) AppendJSON(b []byte) []byte {
	b = append(b, `{"shell":{"name":`...)
	b = jsonwire.AppendString(b, i.Shell.Name)
	b = append(b, `,"path":`...)
	b = jsonwire.AppendString(b, i.Shell.Path)
	b = append(b, '}')
	for _, m := range [...]struct{ name, value string }{
		{`,"cwd":`, i.Cwd}, {`,"tempDir":`, i.TempDir}, {`,"userHomeDir":`, i.UserHomeDir},
		{`,"platformOs":`, i.PlatformOS}, {`,"executorVersion":`, i.ExecutorVersion},
	} {
		if m.value != "" {
			b = append(b, m.name...)
			b = jsonwire.AppendString(b, m.value)
		}
	}
	b = append(b, `,"temporaryDirectories":`...)
	b = appendStrings(b, i.TemporaryDirectories)
	b = append(b, `,"capabilities":{"fileWriteStreaming":`...)
	b = jsonwire.AppendBool(b, i.Capabilities.FileWriteStreaming)
	b = append(b, `,"sandboxedFileStreaming":`...)
	b = jsonwire.AppendBool(b, i.Capabilities.SandboxedFileStreaming)
	for _, m := range [...]struct {
		name  string
		value bool
	}{
		{`,"linuxRootWritePreservesDevices":true`, i.Capabilities.RootWriteKeepsDevices},
		{`,"linuxApprovedRootWritePreservesRestrictions":true`, i.Capabilities.RootWriteKeepsRestrictions},
	} {
		if m.value {
			b = append(b, m.name...)
		}
	}
	b = append(b, `,"httpHeaderEnvVars":`...)
	b = jsonwire.AppendBool(b, i.Capabilities.HTTPHeaderEnvVars)
	return append(b, "}}"...)
}

// AppendJSON appends r.
func (r StatusResult) AppendJSON(b []byte) []byte {
	b = append(b, `{"status":`...)
	b = jsonwire.AppendString(b, r.Status)
	return append(b, '}')
}

// AppendJSON appends r.
func (r StartResult) AppendJSON(b []byte) []byte {
	b = append(b, `{"processId":`...)
	b = jsonwire.AppendString(b, r.ProcessID)
	if r.SandboxType != "" {
		b = append(b, `,"sandboxType":`...)
		b = jsonwire.AppendString(b, r.SandboxType)
	}
	return append(b, '}')
}

// AppendJSON appends r.
func (r ReadResult) AppendJSON(b []byte) []byte {
	b = append(b, `{"chunks":[`...)
	for i := range r.Chunks {
		c := &r.Chunks[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"seq":`...)
		b = jsonwire.AppendUint(b, c.Seq)
		b = append(b, `,"stream":`...)
		b = jsonwire.AppendString(b, c.Stream)
		b = append(b, `,"chunk":`...)
		b = jsonwire.AppendBase64String(b, c.Chunk)
		b = append(b, '}')
	}
	b = append(b, `],"nextSeq":`...)
	b = jsonwire.AppendUint(b, r.NextSeq)
	b = append(b, `,"exited":`...)
	b = jsonwire.AppendBool(b, r.Exited)
	b = append(b, `,"exitCode":`...)
	b = appendCode(b, r.ExitCode)
	b = append(b, `,"closed":`...)
	b = jsonwire.AppendBool(b, r.Closed)
	b = append(b, `,"failure":`...)
	b = appendOptional(b, r.Failure)
	b = append(b, `,"sandboxDenied":`...)
	b = jsonwire.AppendBool(b, r.SandboxDenied)
	return append(b, '}')
}

// AppendJSON appends r.
func (r WriteResult) AppendJSON(b []byte) []byte {
	b = append(b, `{"status":`...)
	b = jsonwire.AppendString(b, r.Status)
	return append(b, '}')
}

// AppendJSON appends r.
func (r TerminateResult) AppendJSON(b []byte) []byte {
	b = append(b, `{"running":`...)
	b = jsonwire.AppendBool(b, r.Running)
	return append(b, '}')
}

// AppendJSON appends r.
func (r ListResult) AppendJSON(b []byte) []byte {
	b = append(b, `{"processes":[`...)
	for i, p := range r.Processes {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"processId":`...)
		b = jsonwire.AppendString(b, p.ProcessID)
		b = append(b, `,"argv":`...)
		b = appendStrings(b, p.Argv)
		b = append(b, `,"startedAtMs":`...)
		b = jsonwire.AppendInt(b, p.StartedAtMS)
		b = append(b, `,"exited":`...)
		b = jsonwire.AppendBool(b, p.Exited)
		b = append(b, `,"exitCode":`...)
		b = appendCode(b, p.ExitCode)
		b = append(b, `,"closed":`...)
		b = jsonwire.AppendBool(b, p.Closed)
		b = append(b, `,"tty":`...)
		b = jsonwire.AppendBool(b, p.TTY)
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// AppendJSON appends r.
func (r ReadFileResult) AppendJSON(b []byte) []byte {
	b = append(b, `{"dataBase64":`...)
	b = jsonwire.AppendBase64String(b, r.DataBase64)
	return append(b, '}')
}

// AppendJSON appends r.
func (r OpenResult) AppendJSON(b []byte) []byte {
	b = append(b, `{"handleId":`...)
	b = jsonwire.AppendString(b, r.HandleID)
	return append(b, '}')
}

// AppendJSON appends r.
func (r ReadBlockResult) AppendJSON(b []byte) []byte {
	b = append(b, `{"chunk":`...)
	b = jsonwire.AppendBase64String(b, r.Chunk)
	b = append(b, `,"eof":`...)
	b = jsonwire.AppendBool(b, r.EOF)
	return append(b, '}')
}

// AppendJSON appends m.
func (m Metadata) AppendJSON(b []byte) []byte {
	b = append(b, `{"isDirectory":`...)
	b = jsonwire.AppendBool(b, m.IsDirectory)
	b = append(b, `,"isFile":`...)
	b = jsonwire.AppendBool(b, m.IsFile)
	b = append(b, `,"isSymlink":`...)
	b = jsonwire.AppendBool(b, m.IsSymlink)
	b = append(b, `,"size":`...)
	b = jsonwire.AppendUint(b, m.Size)
	b = append(b, `,"createdAtMs":`...)
	b = jsonwire.AppendInt(b, m.CreatedAtMS)
	b = append(b, `,"modifiedAtMs":`...)
	b = jsonwire.AppendInt(b, m.ModifiedAtMS)
	return append(b, '}')
}

// AppendJSON appends r.
func (r PathResult) AppendJSON(b []byte) []byte {
	b = append(b, `{"path":`...)
	b = jsonwire.AppendString(b, r.Path)
	return append(b, '}')
}

// AppendJSON appends r.
func (r ReadDirectoryResult) AppendJSON(b []byte) []byte {
	b = append(b, `{"entries":[`...)
	for i, e := range r.Entries {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"fileName":`...)
		b = jsonwire.AppendString(b, e.FileName)
		b = append(b, `,"isDirectory":`...)
		b = jsonwire.AppendBool(b, e.IsDirectory)
		b = append(b, `,"isFile":`...)
		b = jsonwire.AppendBool(b, e.IsFile)
		if e.IsLossy {
			b = append(b, `,"isLossy":true`...)
		}
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// AppendJSON appends r.
func (r WalkResult) AppendJSON(b []byte) []byte {
	b = append(b, `{"entries":[`...)
	for i, e := range r.Entries {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"path":`...)
		b = jsonwire.AppendString(b, e.Path)
		b = append(b, `,"kind":`...)
		b = jsonwire.AppendString(b, e.Kind)
		b = append(b, '}')
	}
	b = append(b, `],"errors":[`...)
	for i, e := range r.Errors {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"path":`...)
		b = jsonwire.AppendString(b, e.Path)
		b = append(b, `,"message":`...)
		b = jsonwire.AppendString(b, e.Message)
		b = append(b, '}')
	}
	b = append(b, `],"truncated":`...)
	b = jsonwire.AppendBool(b, r.Truncated)
	return append(b, '}')
}

// AppendJSON appends r. Its text ends with the body's, so that a large body
// can be sent in parts in place of an empty one.
func (r HTTPRequestResult) AppendJSON(b []byte) []byte {
	b = append(b, `{"status":`...)
	b = jsonwire.AppendInt(b, int64(r.Status))
	b = append(b, `,"headers":[`...)
	for i, h := range r.Headers {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = jsonwire.AppendString(b, h.Name)
		b = append(b, `,"value":`...)
		b = jsonwire.AppendString(b, h.Value)
		b = append(b, '}')
	}
	b = append(b, `],"bodyBase64":`...)
	b = jsonwire.AppendBase64String(b, r.Body)
	return append(b, '}')
}
