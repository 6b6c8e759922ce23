//go:build sandbox_mistakes

package launcher

import "os"

func mistake(name string) bool { return os.Getenv("CODEX_SANDBOX_MISTAKE") == name }
