//go:build linux || darwin

package execserver

import "codex.internal/pkg/execproto"

// environment is what environment/info answers. Three of the capabilities are
// promises of the sandbox: they are made where its backend can enforce every
// plan. It is found out with the first client, because a server should listen
// at once.
func (srv *Server) environment() execproto.EnvironmentInfo {
	info := srv.info
	if r, err := srv.sandboxes(); err == nil && r.Status().Complete {
		info.Capabilities.SandboxedFileStreaming = true
		info.Capabilities.RootWriteKeepsDevices = true
		info.Capabilities.RootWriteKeepsRestrictions = true
	}
	return info
}

// environmentInfo tells about the machine (section 7).
func environmentInfo(rq *request) { rq.result(rq.c.srv.environment()) }

// environmentStatus tells that the server answers.
func environmentStatus(rq *request) { rq.result(execproto.StatusResult{Status: "ready"}) }
