// Package pattern has regular expressions that are compiled at their first use.
//
// A program that compiles all of its expressions at its start takes 10 microseconds for each,
// and codex has twenty of them: most commands use none.
package pattern

import (
	"regexp"
	"sync"
)

// New returns a function that returns the compiled expression. It panics at its first call if
// the expression is malformed. It may be called from any goroutine.
func New(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
