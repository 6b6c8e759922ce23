module codex.internal/scripts/tools/wycheproof

go 1.26.0

require (
	codex.internal/pkg v0.0.0
	github.com/flynn/noise v1.1.0
)

require (
	github.com/c2sp/wycheproof v0.0.0-20260105152342-fca0d3ba9f12
	github.com/golang-jwt/jwt/v5 v5.3.1 // indirect
	github.com/segmentio/asm v1.2.1 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace codex.internal/pkg => ../../../pkg
