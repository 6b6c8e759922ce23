package testutil

import (
	"fmt"
	"slices"
	"testing"
)

// TestPairs: all pairs in CI, and otherwise one.
func TestPairs(t *testing.T) {
	for _, tt := range []struct{ first, second, one, all int }{
		{2, 3, 1, 6}, {1, 3, 1, 3}, {3, 1, 1, 3}, {1, 1, 1, 1}, {0, 3, 0, 0}, {2, 0, 0, 0},
	} {
		for _, name := range []string{"", "TestA", "TestB", "TestC", "TestD"} {
			for value, want := range map[string]int{"": tt.one, "1": tt.all} {
				t.Setenv(allRounds, value)
				got := numbered(name, tt.first, tt.second)
				if len(got) != want || len(slices.Compact(slices.Sorted(slices.Values(got)))) != want {
					t.Errorf("%d times %d with %s=%s: got %v, want %d pairs", tt.first, tt.second, allRounds, value, got, want)
				}
			}
		}
	}
}

// numbered returns all pairs of numbers below first and second, as texts.
func numbered(name string, first, second int) (pairs []string) {
	for a, list := range Pairs(name, upTo(first), upTo(second)) {
		for _, b := range list {
			pairs = append(pairs, fmt.Sprint(a, b))
		}
	}
	return pairs
}

func upTo(n int) (numbers []int) {
	for i := range n {
		numbers = append(numbers, i)
	}
	return numbers
}

// TestPairsDiffer: tests of different names share the pairs out among them.
func TestPairsDiffer(t *testing.T) {
	t.Setenv(allRounds, "")
	seen := make(map[string]bool)
	for i := range 50 {
		for _, p := range numbered(fmt.Sprint("Test", i), 2, 3) {
			seen[p] = true
		}
	}
	if len(seen) != 6 {
		t.Errorf("50 tests try %d of 6 pairs", len(seen))
	}
}

// TestChoice: all elements in CI, otherwise one, and not the same one for all tests.
func TestChoice(t *testing.T) {
	t.Setenv(allRounds, "")
	seen := make(map[int]bool)
	for i := range 50 {
		got := Choice(fmt.Sprint("Test", i), upTo(3))
		if len(got) != 1 {
			t.Fatalf("got %v, want len(got) 1", got)
		}
		seen[got[0]] = true
	}
	if len(seen) != 3 || len(Choice("Test", upTo(0))) != 0 {
		t.Errorf("50 tests try %v of three", seen)
	}
	t.Setenv(allRounds, "1")
	if got := Choice("Test", upTo(3)); !slices.Equal(got, upTo(3)) {
		t.Errorf("in CI: %v", got)
	}
}
