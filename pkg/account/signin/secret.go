package signin

import "codex.internal/pkg/wire/secret"

// Secret is a key or a token. It prints as [redacted]; Reveal returns the text.
type Secret = secret.Text
