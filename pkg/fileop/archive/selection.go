package archive

import (
	"slices"
	"strings"

	"codex.internal/pkg/host/dirfd"
)

// selection is a set of paths, in the order in which a walk visits them.
type selection [][]string // the names of each

// selectionOf returns the set of the paths, without duplicates. It also returns the invalid
// paths: those that no file can have, or that lead out of the source.
func selectionOf(paths []string) (s selection, wrong []string) {
	s = make(selection, 0, len(paths))
	for _, path := range paths {
		names, err := parts(path, dirfd.ValidName)
		if err != nil {
			wrong = append(wrong, path)
			continue
		}
		s = append(s, names)
	}
	slices.SortFunc(s, slices.Compare)
	return slices.CompactFunc(s, slices.Equal), wrong
}

// from returns the part of the set that is path or is below it, and the number of names of
// path.
func (s selection) from(path string) (selection, int) {
	var names []string
	if path != "" {
		names = strings.Split(path, "/")
	}
	begin, _ := slices.BinarySearchFunc(s, names, slices.Compare)
	end := begin
	for end < len(s) && len(s[end]) >= len(names) && slices.Equal(s[end][:len(names)], names) {
		end++
	}
	return s[begin:end], len(names)
}

// has reports whether a path is in the set.
func (s selection) has(path string) bool {
	part, depth := s.from(path)
	return len(part) > 0 && len(part[0]) == depth
}

// below reports whether the set has a path below the given one.
func (s selection) below(path string) bool {
	part, depth := s.from(path)
	return len(part) > 0 && len(part[len(part)-1]) > depth
}

// in returns those names in a directory that are in the set or are above a path of the set.
func (s selection) in(path string) []string {
	part, depth := s.from(path)
	var names []string
	for _, path := range part {
		if len(path) > depth && (len(names) == 0 || names[len(names)-1] != path[depth]) {
			names = append(names, path[depth])
		}
	}
	return names
}
