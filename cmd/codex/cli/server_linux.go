package cli

import "codex.internal/cmd/codex/cli/server"

var serverCommand = server.Command
