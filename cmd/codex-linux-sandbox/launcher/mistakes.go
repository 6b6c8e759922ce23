//go:build !sandbox_mistakes

package launcher

// mistake reports whether something is left out by mistake. Only tests of the second walls build a launcher that
// makes one: the variable CODEX_SANDBOX_MISTAKE names it.
func mistake(string) bool { return false }
