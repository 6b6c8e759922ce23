package execclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"syscall"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/wire/b64"
)

// FS is the server's file system. Its methods may be called from any goroutine. Paths are
// absolute paths of the server or `file:` URIs.
//
// Errors are *fs.PathError. They match fs.ErrNotExist if the file does not exist, fs.ErrInvalid
// if the server refuses the request, and also fs.ErrPermission if the server refuses it because
// of the user's permissions or the sandbox. If the server reports them, they match fs.ErrExist
// and, for Rename, syscall.EXDEV. All errors of the server wrap a *ServerError. A lost
// connection matches ErrClosed and syscall.EPIPE.
//
// Package fsx makes an fs.FS of it.
type FS struct {
	c        *Client
	sandbox  json.RawMessage // nil: no sandbox
	confines bool            // the server must confine requests
}

// FS returns the server's file system, without a sandbox.
func (c *Client) FS() *FS { return &FS{c: c} }

// WithSandbox returns the file system in a sandbox, for instance that of ReadOnlySandbox. The
// server refuses requests that the sandbox does not permit. The directories of the sandbox are
// not sent if its permissions do not depend on them.
func (f *FS) WithSandbox(sandbox json.RawMessage) *FS {
	g := &FS{c: f.c}
	g.sandbox, g.confines = fileSandbox(sandbox)
	return g
}

// fileSandbox returns a sandbox in the form for file requests (docs/spec/client.md §3.2), and
// whether the server must confine the request. A sandbox that cannot be decoded is sent
// unchanged; the server refuses it.
func fileSandbox(raw json.RawMessage) (sandbox json.RawMessage, confines bool) {
	if len(raw) == 0 {
		return nil, false
	}
	ctx, err := permissions.DecodeContext(raw, func(text string) (string, error) { return text, nil })
	if err != nil || ctx.Legacy != nil {
		return raw, true
	}
	confines = ctx.Profile.ConfinesFiles()
	if ctx.Profile.NeedsCwd() {
		return raw, confines
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return raw, confines
	}
	delete(members, "cwd")
	delete(members, "workspaceRoots")
	short, err := json.Marshal(members)
	if err != nil {
		return raw, confines
	}
	return short, confines
}

// call makes a request about a path; op is for the *fs.PathError.
func (f *FS) call(ctx context.Context, op, path, method string, params, result execproto.Object) error {
	return pathError(op, path, f.c.Call(ctx, method, params, result))
}

// fileError is the error in the Err field of a *fs.PathError.
type fileError struct {
	err   error
	kinds []error // errors that it matches, in addition to err
}

func (e *fileError) Error() string { return e.err.Error() }

func (e *fileError) Unwrap() error { return e.err }

// Is reports whether target is one of the kinds.
func (e *fileError) Is(target error) bool {
	for _, kind := range e.kinds {
		if kind == target {
			return true
		}
	}
	return false
}

// pathError wraps an error about a path; nil stays nil.
func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	var refused *ServerError
	switch {
	case errors.As(err, &refused):
		err = &fileError{err, kindsOf(refused)}
	case errors.Is(err, ErrClosed):
		err = &fileError{err, []error{syscall.EPIPE}}
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// osError finds the host's error number in a server's text. The numbers below are the same on
// Linux and macOS.
var osError = regexp.MustCompile(`\(os error (\d+)\)`)

// kindsOf returns the errors of package fs that match a server's error.
func kindsOf(e *ServerError) []error {
	var kinds []error
	switch e.Code {
	case execproto.CodeNotFound:
		kinds = append(kinds, fs.ErrNotExist)
	case execproto.CodeInvalidRequest:
		kinds = append(kinds, fs.ErrInvalid)
	}
	if m := osError.FindStringSubmatch(e.Message); m != nil {
		switch m[1] {
		case "1", "13":
			kinds = append(kinds, fs.ErrPermission)
		case "17":
			kinds = append(kinds, fs.ErrExist)
		case "18":
			kinds = append(kinds, syscall.EXDEV)
		}
	}
	return kinds
}

// Stat describes the target of a path; IsSymlink is about the path itself.
func (f *FS) Stat(ctx context.Context, path string) (execproto.Metadata, error) {
	var m execproto.Metadata
	err := f.call(ctx, "stat", path, execproto.MethodFSGetMetadata, &execproto.LinkPathParams{Path: pathOf(path), Sandbox: f.sandbox}, &m)
	return m, err
}

// Canonicalize returns the path without links, as a `file:` URI.
func (f *FS) Canonicalize(ctx context.Context, path string) (string, error) {
	var r execproto.PathResult
	err := f.call(ctx, "canonicalize", path, execproto.MethodFSCanonicalize, &execproto.PathParams{Path: pathOf(path), Sandbox: f.sandbox}, &r)
	return r.Path, err
}

// ReadDir lists a directory. The entries of symbolic links describe their targets.
func (f *FS) ReadDir(ctx context.Context, path string) ([]execproto.DirectoryEntry, error) {
	var r execproto.ReadDirectoryResult
	err := f.call(ctx, "readdir", path, execproto.MethodFSReadDirectory, &execproto.ReadDirectoryParams{Path: pathOf(path), Sandbox: f.sandbox}, &r)
	return r.Entries, err
}

// HasEntryAttributes reports whether the server supports ReadDirAttributes, and Attributes in
// the options of Walk. Codex CLI's servers do not.
func (f *FS) HasEntryAttributes() bool { return f.c.Has(execproto.ExtensionEntryAttributes) }

// ReadDirAttributes is ReadDir with the attributes of each name itself, in one request. It
// also returns links that lead nowhere. Servers without it fail with ErrUnsupported.
func (f *FS) ReadDirAttributes(ctx context.Context, path string) ([]execproto.DirectoryEntry, error) {
	if !f.HasEntryAttributes() {
		return nil, pathError("readdir", path, errNoEntryAttributes)
	}
	var r execproto.ReadDirectoryResult
	params := execproto.ReadDirectoryParams{Path: pathOf(path), Attributes: true, Sandbox: f.sandbox}
	err := f.call(ctx, "readdir", path, execproto.MethodFSReadDirectory, &params, &r)
	return r.Entries, err
}

var errNoEntryAttributes = fmt.Errorf("this server lists no attributes: %w", ErrUnsupported)

// ReadFile reads a file of at most execproto.MaxReadFileBytes into memory. See OpenStream for
// larger ones.
func (f *FS) ReadFile(ctx context.Context, path string) ([]byte, error) {
	params := execproto.LinkPathParams{Path: pathOf(path), Sandbox: f.sandbox}
	var r execproto.ReadFileResult
	err := f.c.Call(ctx, execproto.MethodFSReadFile, &params, &r)
	var bad *b64.Error
	if errors.As(err, &bad) {
		err = protocolf("remote fs/readFile returned invalid base64 dataBase64: %v", bad)
	}
	return r.DataBase64, pathError("open", path, err)
}

// WriteFile creates or truncates a file and writes it, in one message. See WriteStream for
// large files, and for replacing a file in one step.
func (f *FS) WriteFile(ctx context.Context, path string, data []byte) error {
	params := execproto.WriteFileParams{Path: pathOf(path), DataBase64: b64.Append(nil, data), Sandbox: f.sandbox}
	return f.call(ctx, "open", path, execproto.MethodFSWriteFile, &params, nil)
}

// WriteFileWith writes a file in one message with options. Servers without an option fail with
// ErrUnsupported.
func (f *FS) WriteFileWith(ctx context.Context, path string, data []byte, o WriteOptions) error {
	params := execproto.WriteFileParams{
		Path: pathOf(path), DataBase64: b64.Append(nil, data), FollowSymlinks: follow(o.NoFollow),
		Atomic: o.Atomic, Permissions: bitsOf(o.Permissions), Sandbox: f.sandbox,
	}
	if !o.Atomic && o.Permissions == nil {
		return f.call(ctx, "open", path, execproto.MethodFSWriteFile, &params, nil)
	}
	return f.attributes(ctx, "open", path, execproto.MethodFSWriteFile, &params, nil)
}

// bitsOf returns the permissions for a request.
func bitsOf(permissions *fs.FileMode) *uint32 {
	if permissions == nil {
		return nil
	}
	return new(uint32(permissions.Perm()))
}

// Mkdir makes a directory whose parent exists.
func (f *FS) Mkdir(ctx context.Context, path string) error { return f.mkdir(ctx, path, false) }

// MkdirAll makes a directory and its parents; existing ones are no error.
func (f *FS) MkdirAll(ctx context.Context, path string) error { return f.mkdir(ctx, path, true) }

func (f *FS) mkdir(ctx context.Context, path string, all bool) error {
	return f.call(ctx, "mkdir", path, execproto.MethodFSCreateDirectory,
		&execproto.CreateDirectoryParams{Path: pathOf(path), Recursive: &all, Sandbox: f.sandbox}, nil)
}

// MkdirOptions configure MkdirAllWith.
type MkdirOptions struct {
	// Permissions, less the umask, are those of the directory itself if it is new; nil: 0777.
	// Servers without HasAttributes fail with ErrUnsupported.
	Permissions *fs.FileMode
	// NoFollow refuses a path with a symbolic link: fs.ErrInvalid.
	NoFollow bool
}

// MkdirAllWith is MkdirAll with options.
func (f *FS) MkdirAllWith(ctx context.Context, path string, o MkdirOptions) error {
	all := true
	params := execproto.CreateDirectoryParams{
		Path: pathOf(path), Recursive: &all, FollowSymlinks: follow(o.NoFollow), Permissions: bitsOf(o.Permissions), Sandbox: f.sandbox,
	}
	if o.Permissions == nil {
		return f.call(ctx, "mkdir", path, execproto.MethodFSCreateDirectory, &params, nil)
	}
	return f.attributes(ctx, "mkdir", path, execproto.MethodFSCreateDirectory, &params, nil)
}

// follow returns followSymlinks for a request.
func follow(noFollow bool) *bool {
	if noFollow {
		return new(false)
	}
	return nil
}

// Remove removes a file, a link or an empty directory.
func (f *FS) Remove(ctx context.Context, path string) error { return f.remove(ctx, path, false) }

// RemoveAll removes a path and everything below it. A missing path is no error.
func (f *FS) RemoveAll(ctx context.Context, path string) error { return f.remove(ctx, path, true) }

// RemoveOptions configure RemoveWith.
type RemoveOptions struct {
	All      bool // with everything below it; a missing path is no error
	NoFollow bool // refuse paths with a symbolic link, even at the end: fs.ErrInvalid
	// Link, with NoFollow, removes a link at the end of the path itself. Servers without it
	// fail with ErrUnsupported.
	Link bool
}

// RemoveWith is Remove or RemoveAll with options.
func (f *FS) RemoveWith(ctx context.Context, path string, o RemoveOptions) error {
	if o.Link && !f.c.Has(execproto.ExtensionRemoveLink) {
		return pathError("remove", path, fmt.Errorf("this server cannot remove a link without following links on the way to it: %w", ErrUnsupported))
	}
	return f.call(ctx, "remove", path, execproto.MethodFSRemove, &execproto.RemoveParams{
		Path: pathOf(path), Recursive: &o.All, Force: &o.All, FollowSymlinks: follow(o.NoFollow), RemoveLink: o.Link, Sandbox: f.sandbox,
	}, nil)
}

func (f *FS) remove(ctx context.Context, path string, all bool) error {
	return f.call(ctx, "remove", path, execproto.MethodFSRemove,
		&execproto.RemoveParams{Path: pathOf(path), Recursive: &all, Force: &all, Sandbox: f.sandbox}, nil)
}

// Copy copies a file, or with recursive a directory, within the server. Links are copied as
// links. Pipes, sockets and devices in a directory are left out: then the error is a
// *LeftOutError, and everything else is copied.
func (f *FS) Copy(ctx context.Context, source, destination string, recursive bool) error {
	var result execproto.CopyResult
	err := f.call(ctx, "copy", source, execproto.MethodFSCopy, &execproto.CopyParams{
		SourcePath: pathOf(source), DestinationPath: pathOf(destination), Recursive: recursive, Sandbox: f.sandbox,
	}, &result)
	if err != nil || result.LeftOut == nil {
		return err
	}
	return pathError("copy", source, &LeftOutError{Count: result.LeftOut.Count, URIs: result.LeftOut.Paths})
}

// RenameOptions configure Rename.
type RenameOptions struct {
	// Overwrite replaces an existing destination: a file or link by a file or link, an empty
	// directory by a directory. Without it an existing destination is fs.ErrExist.
	Overwrite bool
}

// Rename renames a file, a link (not its target) or a directory within the server, in one
// step. Between file systems it fails with syscall.EXDEV. For Codex CLI's servers, which
// cannot rename, the error is ErrUnsupported.
func (f *FS) Rename(ctx context.Context, source, destination string, o RenameOptions) error {
	if !f.c.Has(execproto.MethodFSRename) {
		return pathError("rename", source, fmt.Errorf("this server cannot rename files: %w", ErrUnsupported))
	}
	return f.call(ctx, "rename", source, execproto.MethodFSRename, &execproto.RenameParams{
		SourcePath: pathOf(source), DestinationPath: pathOf(destination), Overwrite: o.Overwrite, Sandbox: f.sandbox,
	}, nil)
}

// HasAttributes reports whether the server supports Attributes, ListAttributes, Chmod,
// Chtimes, Symlink, and permissions of new files. Codex CLI's servers do not: there these
// methods fail with ErrUnsupported.
func (f *FS) HasAttributes() bool { return f.c.Has(execproto.MethodFSSetAttributes) }

// attributes makes a request that only servers with attributes support.
func (f *FS) attributes(ctx context.Context, op, path, method string, params, result execproto.Object) error {
	if !f.HasAttributes() {
		return pathError(op, path, fmt.Errorf("this server supports neither permissions nor links: %w", ErrUnsupported))
	}
	return f.call(ctx, op, path, method, params, result)
}

// Attributes describes a name itself. A link at its end is not followed.
func (f *FS) Attributes(ctx context.Context, path string) (execproto.Attributes, error) {
	var a execproto.Attributes
	err := f.attributes(ctx, "lstat", path, execproto.MethodFSGetAttributes, &execproto.PathParams{Path: pathOf(path), Sandbox: f.sandbox}, &a)
	return a, err
}

// ListAttributes describes all names in a directory, sorted by name. Links are not
// followed.
func (f *FS) ListAttributes(ctx context.Context, path string) ([]execproto.NamedAttributes, error) {
	var r execproto.ListAttributesResult
	err := f.attributes(ctx, "readdir", path, execproto.MethodFSListAttributes, &execproto.PathParams{Path: pathOf(path), Sandbox: f.sandbox}, &r)
	return r.Entries, err
}

// Chmod changes the nine permission bits of a file or directory. A link at the end of the path
// is fs.ErrInvalid.
func (f *FS) Chmod(ctx context.Context, path string, permissions fs.FileMode) error {
	return f.SetAttributes(ctx, path, AttributeChanges{Permissions: &permissions})
}

// Chtimes changes the modification time of a file or directory, in milliseconds. A link at the
// end of the path is fs.ErrInvalid.
func (f *FS) Chtimes(ctx context.Context, path string, modified time.Time) error {
	return f.SetAttributes(ctx, path, AttributeChanges{Modified: modified})
}

// AttributeChanges are new attributes of a file or directory.
type AttributeChanges struct {
	Permissions *fs.FileMode // nil: no change
	Modified    time.Time    // zero: no change
	// NoFollow refuses paths with a symbolic link anywhere: fs.ErrInvalid.
	NoFollow bool
}

// SetAttributes is Chmod and Chtimes in one request.
func (f *FS) SetAttributes(ctx context.Context, path string, changes AttributeChanges) error {
	params := execproto.SetAttributesParams{
		Path: pathOf(path), Permissions: bitsOf(changes.Permissions), FollowSymlinks: follow(changes.NoFollow), Sandbox: f.sandbox,
	}
	if !changes.Modified.IsZero() {
		params.ModifiedAtMS = new(changes.Modified.UnixMilli())
	}
	return f.attributes(ctx, "chmod", path, execproto.MethodFSSetAttributes, &params, nil)
}

// SymlinkOptions configure Symlink.
type SymlinkOptions struct {
	// Overwrite replaces an existing link. Without it, and for any other existing file, the
	// error is fs.ErrExist.
	Overwrite bool
	// NoFollow refuses a path with a symbolic link on the way: fs.ErrInvalid.
	NoFollow bool
}

// Symlink makes a symbolic link at path. The target may be any text.
func (f *FS) Symlink(ctx context.Context, target, path string, o SymlinkOptions) error {
	return f.attributes(ctx, "symlink", path, execproto.MethodFSSymlink,
		&execproto.SymlinkParams{Path: pathOf(path), Target: target, Overwrite: o.Overwrite, FollowSymlinks: follow(o.NoFollow), Sandbox: f.sandbox}, nil)
}

// Readlink returns the target of a link. For any other file the error is fs.ErrInvalid.
func (f *FS) Readlink(ctx context.Context, path string) (string, error) {
	a, err := f.Attributes(ctx, path)
	switch {
	case err != nil:
		return "", err
	case a.Kind != execproto.KindSymlink:
		return "", pathError("readlink", path, fmt.Errorf("not a symbolic link: %w", fs.ErrInvalid))
	case a.Target == "":
		return "", pathError("readlink", path, errors.New("the target of the link is not UTF-8"))
	}
	return a.Target, nil
}

// background runs f in a goroutine. Close waits for it and ends its context. After Close,
// background does nothing and returns false.
func (c *Client) background(f func(ctx context.Context)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing {
		c.wg.Go(func() { f(c.ctx) })
	}
	return !c.closing
}
