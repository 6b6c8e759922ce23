package execserver

import (
	"strings"

	"codex.internal/pkg/wire/logtext"
)

const (
	// codexVersion is the version of Codex CLI that a server stands in for. Clients of
	// Codex CLI compare executorVersion with the versions that features came with: 0.169.0
	// does not ask a server for capabilities/discoverV2 that says less than 0.168, or
	// nothing that it can compare.
	codexVersion = "0.169.0"
	// maxOwnVersion is more than the longest version that a release or a commit has, in bytes.
	maxOwnVersion = 64
)

// executorVersion returns what clients are told (docs/spec/wire.md §7.1): a semantic version,
// with the server's own as build metadata, which is compared with nothing.
func executorVersion(own string) string {
	own = strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '.', r == '-':
			return r
		}
		return '-'
	}, logtext.Clip(own, maxOwnVersion)), ".")
	for strings.Contains(own, "..") {
		own = strings.ReplaceAll(own, "..", ".")
	}
	if own == "" {
		return codexVersion
	}
	return codexVersion + "+" + own
}
