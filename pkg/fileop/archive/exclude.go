package archive

import (
	"fmt"
	"path"
	"strings"
)

// Excluder returns a function for PackOptions.Exclude. A pattern has the syntax of package
// path. It is matched against the last name of a path or, if it contains a slash, against the
// whole path. An error names a malformed pattern.
func Excluder(patterns []string) (func(below string, isDirectory bool) bool, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	type pattern struct {
		text  string
		whole bool
	}
	list := make([]pattern, len(patterns))
	for i, text := range patterns {
		if _, err := path.Match(text, ""); err != nil {
			return nil, fmt.Errorf("%q is not a pattern: %w", text, err)
		}
		text = strings.Trim(text, "/")
		list[i] = pattern{text, strings.Contains(text, "/")}
	}
	return func(below string, _ bool) bool {
		for _, p := range list {
			name := below
			if !p.whole {
				name = path.Base(below)
			}
			if match, _ := path.Match(p.text, name); match {
				return true
			}
		}
		return false
	}, nil
}
