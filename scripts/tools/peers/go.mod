module codex.internal/scripts/tools/peers

go 1.26.0

require codex.internal/pkg v0.0.0

require github.com/klauspost/compress v1.20.0 // indirect

require (
	github.com/coder/websocket v1.8.15
	github.com/flynn/noise v1.1.0 // indirect
	github.com/segmentio/asm v1.2.1 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace codex.internal/pkg => ../../../pkg
