package launcher

import (
	"slices"
	"strconv"

	"codex.internal/pkg/sandbox/plan"
)

// The second wall of denied paths below readable ones, for file requests: Landlock takes nothing away below a grant, so if a mask is
// missing by a mistake, the kernel shows what it hides. The helper of file requests is told what the plan masks, and refuses
// it too. A command cannot be told.

// denialsVariable is the variable of the helper's environment that has the masks, as codexfs reads it: a line for each mount
// that is a mask, with - and the quoted path, and for each one that is none, with +. The deepest one counts.
const denialsVariable = "CODEX_FS_DENIED"

// maxDenials bounds the variable: the kernel takes no longer one than 128 KiB. What a pattern has matched beyond it is left to the
// masks.
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
