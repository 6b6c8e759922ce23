package testutil

import (
	"flag"
	"fmt"
	"slices"
	"testing"
)

// TestPairs: all pairs in CI, one with -short, and else two that differ.
func TestPairs(t *testing.T) {
	short := flag.Lookup("test.short")
	before := short.Value.String()
	defer func() { _ = short.Value.Set(before) }()
	for _, tt := range []struct {
		first, second    int
		short, some, all int
	}{
		{2, 3, 1, 2, 6}, {1, 3, 1, 2, 3}, {3, 1, 1, 2, 3}, {2, 1, 1, 2, 2}, {2, 2, 1, 2, 4}, {1, 1, 1, 1, 1}, {0, 3, 0, 0, 0}, {2, 0, 0, 0, 0},
	} {
		for _, name := range []string{"", "TestA", "TestB", "TestC", "TestD"} {
			for which, want := range map[string]int{"short": tt.short, "some": tt.some, "all": tt.all} {
				_ = short.Value.Set(fmt.Sprint(which == "short"))
				t.Setenv(allRounds, map[string]string{"all": "1"}[which])
				got := numbered(name, tt.first, tt.second)
				if len(got) != want || len(slices.Compact(slices.Sorted(slices.Values(got)))) != want {
					t.Errorf("%s of %d times %d: %v, want %d pairs", which, tt.first, tt.second, got, want)
				}
				if which == "some" && !differ(got, tt.first, tt.second) {
					t.Errorf("%s of %d times %d: got %v, want pairs that differ in both elements", which, tt.first, tt.second, got)
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

// differ reports whether the pairs contain two elements of each list, or the only one.
func differ(pairs []string, first, second int) bool {
	seen := make(map[string]bool)
	for _, p := range pairs {
		var a, b int
		_, _ = fmt.Sscan(p, &a, &b) // written by numbered
		seen[fmt.Sprint("first ", a)], seen[fmt.Sprint("second ", b)] = true, true
	}
	return first == 0 || second == 0 || len(seen) == min(2, first)+min(2, second)
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
