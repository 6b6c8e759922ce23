module codex.internal/cmd/codex-linux-sandbox

go 1.26.0

replace codex.internal/pkg => ../../pkg
