package launcher

import (
	"slices"
	"strconv"

	"codex.internal/pkg/sandbox/plan"
)

// This file is the second wall of denied paths below readable ones, for file requests. Landlock cannot deny a path below a grant,
// so if a mask is missing by a mistake, the kernel shows the hidden path. The helper of file requests gets the list of the plan's
// masks, and refuses these paths as well. A command has no such check.

// denialsVariable is the variable of the helper's environment that contains the masks, in the form that codexfs reads. Each
// mount has a line: - and the quoted path for a mask, + and the quoted path for any other mount. The deepest matching mount
// decides.
const denialsVariable = "CODEX_FS_DENIED"

// maxDenials bounds the variable in bytes, because the kernel accepts at most 128 KiB. Matches of patterns that do not fit are
// protected by their masks only.
const maxDenials = 96 << 10

// commandEnv returns the environment of the command.
func (l *launch) commandEnv() []string {
	if !l.helper {
		return l.env
	}
	text := []byte(denialsVariable + "=")
	for _, m := range l.plan.Mounts {
		sign := byte('+')
		if m.Kind == plan.EmptyDir || m.Kind == plan.EmptyFile {
			sign = '-'
		}
		before := len(text)
		if text = append(strconv.AppendQuote(append(text, sign), m.Target), '\n'); len(text) > maxDenials {
			text = text[:before]
			break
		}
	}
	return append(slices.Clip(l.env), string(text))
}
