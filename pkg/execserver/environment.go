//go:build linux || darwin

package execserver

import "codex.internal/pkg/execproto"

// environmentInfo tells about the machine (section 7).
func environmentInfo(rq *request) { rq.result(rq.c.srv.info) }

// environmentStatus tells that the server answers.
func environmentStatus(rq *request) { rq.result(execproto.StatusResult{Status: "ready"}) }
