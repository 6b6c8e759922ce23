package execserver

import (
	"errors"
	"fmt"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/fileop/fsops"
	"codex.internal/pkg/wire/digest"
)

// methodRoles has the role that each method needs (docs/spec/wire.md §1.7). The server refuses
// a method that is not in the table to every client: TestEveryMethodHasARole. init adds the
// file operations of the table of fsops, with a role that depends on whether they change files.
var methodRoles = map[string]wsauth.Role{
	execproto.MethodInitialize: wsauth.RoleRead,

	execproto.MethodEnvironmentInfo:       wsauth.RoleRead,
	execproto.MethodEnvironmentStatus:     wsauth.RoleRead,
	execproto.MethodEnvironmentConfigRead: wsauth.RoleRun, // reads outside of any sandbox

	execproto.MethodProcessStart:      wsauth.RoleRun,
	execproto.MethodProcessRead:       wsauth.RoleRead, // without consume, which may resume the process
	execproto.MethodProcessWrite:      wsauth.RoleRun,
	execproto.MethodProcessCloseStdin: wsauth.RoleRun,
	execproto.MethodProcessResize:     wsauth.RoleRun,
	execproto.MethodProcessSignal:     wsauth.RoleRun,
	execproto.MethodProcessTerminate:  wsauth.RoleRun,
	execproto.MethodProcessList:       wsauth.RoleRead,
	execproto.MethodProcessDetached:   wsauth.RoleRead,
	execproto.MethodProcessForget:     wsauth.RoleRun,
	execproto.NotifyProcessAck:        wsauth.RoleRead,

	execproto.MethodFSOpen:         wsauth.RoleRead, // with RoleRead only for reading: see MayOpen
	execproto.MethodFSOpenArchive:  wsauth.RoleRead, // with RoleRead only for reading: see MayOpen
	execproto.MethodFSReadBlock:    wsauth.RoleRead,
	execproto.MethodFSWriteBlock:   wsauth.RoleRun,
	execproto.MethodFSClose:        wsauth.RoleRead, // only for handles that this client has opened
	execproto.MethodFSWatchMissing: wsauth.RoleRun,  // looks at paths outside of any sandbox
	execproto.MethodFSWatch:        wsauth.RoleRead,
	execproto.MethodFSUnwatch:      wsauth.RoleRead,

	execproto.MethodCapabilityRootsDiscover: wsauth.RoleRead,
	execproto.MethodCapabilitiesDiscover:    wsauth.RoleRead,

	execproto.MethodHTTPRequest: wsauth.RoleRun,
	execproto.NotifyHTTPAck:     wsauth.RoleRun,

	execproto.MethodTunnelOpen:     wsauth.RoleRun,
	execproto.MethodTunnelListen:   wsauth.RoleRun,
	execproto.MethodTunnelUnlisten: wsauth.RoleRun,
	execproto.MethodTunnelResume:   wsauth.RoleRun,
	// Listing ports reveals as much as process/list, and opens no connection.
	execproto.MethodTunnelWatchPorts: wsauth.RoleRead,
	execproto.MethodTunnelUnwatch:    wsauth.RoleRead,
	execproto.NotifyTunnelData:       wsauth.RoleRun,
	execproto.NotifyTunnelAck:        wsauth.RoleRun,
	execproto.NotifyTunnelClose:      wsauth.RoleRun,
}

// networkMethods use the server's network for the client. A ceiling with a sandbox refuses
// them: otherwise a confined command could reach the network with the help of its client.
var networkMethods = map[string]bool{
	execproto.MethodHTTPRequest:    true,
	execproto.MethodTunnelOpen:     true,
	execproto.MethodTunnelListen:   true,
	execproto.MethodTunnelUnlisten: true,
	execproto.MethodTunnelResume:   true,
}

func init() {
	for i := range fsops.Operations() {
		operation := &fsops.Operations()[i]
		switch {
		case operation.Part:
		case operation.ReadOnly:
			methodRoles[operation.Method] = wsauth.RoleRead
		default:
			methodRoles[operation.Method] = wsauth.RoleRun
		}
	}
}

// forbidden reports the error of a request or a notification to observers if the client's token
// does not permit it.
func (c *conn) forbidden(method string, err error) {
	why, ok := errors.AsType[*observe.ForbiddenError](err)
	if !ok {
		return
	}
	seen := observe.Session{Principal: c.principal, Client: c.client, Peer: c.t.Peer()}
	if c.session != nil {
		seen.ID = digest.Of(c.session.id)
	}
	c.srv.events.RequestRefused.Tell(observe.Forbidden{ForbiddenError: why, Session: seen, Method: method})
}

// permit returns an error if the client's role does not allow a method. For an unknown method
// it returns nil; the caller refuses that.
func (c *conn) permit(method string) error {
	needed, ok := methodRoles[method]
	if !ok {
		_, ok = methods[method]
		_, notified := notifications[method]
		if ok = ok || notified; !ok {
			return nil
		}
		needed = "" // no role allows it
	}
	if err := c.needs(needed, method); err != nil {
		return err
	}
	if networkMethods[method] && c.grant.Ceiling.ConfinesProcesses() {
		return observe.Forbid(observe.ByCeiling, execproto.InvalidRequest(fmt.Sprintf("%s would use the network of the server, which the ceiling of this token (--max-sandbox %s) does not permit; "+
			"it needs a token without that ceiling", method, c.grant.Ceiling.MaxSandbox)))
	}
	return nil
}

// needs returns an error if the client's role does not include the given role.
func (c *conn) needs(role wsauth.Role, what string) error {
	if c.grant.Role.Allows(role) {
		return nil
	}
	return observe.Forbid(observe.ByRole, execproto.InvalidRequest(fmt.Sprintf("%s needs a token with the role %s, and this one has the role %s; ask the operator of the server for another token",
		what, role, c.grant.Role)))
}

// outsideCeiling returns an error for a method that reads files outside of any sandbox, if the
// client is confined to a directory.
func (c *conn) outsideCeiling(method string) error {
	if c.grant.Ceiling.Dir == "" {
		return nil
	}
	return observe.Forbid(observe.ByCeiling, execproto.InvalidRequest(fmt.Sprintf("%s looks at files outside of %s, to which this token is confined (--cwd); "+
		"it needs a token without that ceiling", method, c.grant.Ceiling.Dir)))
}

// MayChange implements files.Conn. It returns an error if the client may not change files by a method.
func (c *conn) MayChange(method string) error {
	if c.grant.Ceiling.MaxSandbox != wsauth.SandboxReadOnly {
		return nil
	}
	return observe.Forbid(observe.ByCeiling, execproto.InvalidRequest(method+" changes files, which the ceiling of this token (--max-sandbox read-only) does not permit; "+
		"it needs a token with a higher ceiling"))
}

// MayOpen implements files.Conn. It returns an error if the client may not open a file or an archive in a mode.
func (c *conn) MayOpen(method string, mode execproto.OpenMode) error {
	if mode == execproto.OpenRead {
		return nil
	}
	if err := c.needs(wsauth.RoleRun, method+" to write"); err != nil {
		return err
	}
	return c.MayChange(method)
}
