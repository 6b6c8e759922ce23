package testutil

import (
	"hash/fnv"
	"os"
	"testing"
)

// allRounds is the variable that scripts/test --race and the guests of scripts/kernels set.
const allRounds = "CODEX_TEST_ALL"

// Rounds returns the number of repetitions of a test that tries many cases: few with -short, as
// in scripts/test --quick; all under scripts/test --race, as in .ci/run; else some.
func Rounds[N int | uint64](few, some, all N) N {
	switch {
	case testing.Short():
		return few
	case os.Getenv(allRounds) != "":
		return all
	default:
		return some
	}
}

// Pairs selects the pairs of elements that a test tries, for example of backends and users: all
// pairs under scripts/test --race, and otherwise one. The selection depends on name, so that
// different tests try different pairs.
//
// In the guests of scripts/kernels all pairs are tried, even with -short.
func Pairs[A comparable, B any](name string, first []A, second []B) map[A][]B {
	pairs := make(map[A][]B)
	if len(first) == 0 || len(second) == 0 {
		return pairs
	}
	if os.Getenv(allRounds) == "" {
		turn := turn(name)
		pairs[first[turn%len(first)]] = []B{second[turn/len(first)%len(second)]}
		return pairs
	}
	for _, a := range first {
		pairs[a] = second
	}
	return pairs
}

// Choice selects the elements of a list that a test tries: all under scripts/test --race, as in
// .ci/run, and otherwise one. The choice depends on name, so that different tests try different
// elements.
func Choice[T any](name string, list []T) []T {
	if os.Getenv(allRounds) != "" || len(list) == 0 {
		return list
	}
	i := turn(name) % len(list)
	return list[i : i+1]
}

// turn returns a number that depends on a name alone.
func turn(name string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	return int(h.Sum32() >> 1)
}
