package relay

import "testing"

// Double is the relay of tests, for tests of packages that use both ends.
type Double = double

var NewDouble = newDouble

func (d *double) Cut(chance float64)                { d.cut(chance) }
func (d *double) Bundle() Bundle                    { return d.bundle() }
func (d *double) Harness(o HarnessOptions) *Harness { return d.harness(o) }
func (d *double) AwaitExecutor(t *testing.T)        { d.awaitExecutor(t) }
