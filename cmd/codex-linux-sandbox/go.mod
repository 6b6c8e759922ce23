module codex.internal/cmd/codex-linux-sandbox

go 1.26.0

replace codex.internal/pkg => ../../pkg

require (
	codex.internal/pkg v0.0.0
	golang.org/x/sys v0.49.0
)
