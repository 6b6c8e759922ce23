//go:build !sandbox_mistakes

package launcher

// mistake reports whether the launcher must make a mistake. Only tests of the second wall build a launcher that
// makes mistakes; the variable CODEX_SANDBOX_MISTAKE names the mistake.
func mistake(string) bool { return false }
