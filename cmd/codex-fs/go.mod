module codex.internal/cmd/codex-fs

go 1.26.0

replace codex.internal/pkg => ../../pkg
