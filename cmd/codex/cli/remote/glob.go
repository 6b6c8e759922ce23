package remote

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// expand replaces sources of the server that have * ? or [ by the paths that match. A
// name that has these characters itself is taken as it is.
func (cp *copying) expand(sources []string) ([]string, error) {
	var all []string
	for _, source := range sources {
		if !strings.ContainsAny(source, "*?[") || strings.HasPrefix(source, ":file:") {
			all = append(all, source)
			continue
		}
		uri, err := cp.at.uri(source[1:])
		if err != nil {
			return nil, err
		}
		if _, err := cp.fs.Stat(cp.ctx, uri); err == nil {
			all = append(all, source)
			continue
		}
		found, err := cp.glob(source[1:])
		if err != nil {
			return nil, fmt.Errorf("copy %s: %w", source, withoutPath(err))
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("copy %s: no file of the server matches", source)
		}
		for _, typed := range found {
			all = append(all, ":"+typed)
		}
		if len(all) > maxMatches {
			return nil, fmt.Errorf("copy %s: more than %d files match; name their directory, with -r", source, maxMatches)
		}
	}
	return all, nil
}

// glob returns the paths that match a pattern, sorted within each directory. The parts
// between slashes are matched one after another, as by a shell: a name that begins with
// a dot needs one in the pattern.
func (cp *copying) glob(pattern string) ([]string, error) {
	found := []string{""}
	if strings.HasPrefix(pattern, "/") {
		found[0] = "/"
	}
	for part := range strings.SplitSeq(strings.Trim(pattern, "/"), "/") {
		if part == "" {
			continue
		}
		if !strings.ContainsAny(part, "*?[") {
			for i := range found {
				found[i] = path.Join(found[i], part)
			}
			continue
		}
		var next []string
		for _, dir := range found {
			names, err := cp.matches(dir, part)
			if err != nil {
				return nil, err
			}
			next = append(next, names...)
		}
		if len(next) > maxMatches {
			return nil, fmt.Errorf("more than %d files match", maxMatches)
		}
		found = next
	}
	return found, nil
}

// matches returns the names in a directory that match a part of a pattern, as paths. A
// path that is no directory, or cannot be read, has none.
func (cp *copying) matches(dir, part string) ([]string, error) {
	if _, err := path.Match(part, ""); err != nil {
		return nil, fmt.Errorf("%s: %w", part, err)
	}
	uri, err := cp.at.uri(dir)
	if err != nil {
		return nil, err
	}
	entries, err := cp.fs.ReadDir(cp.ctx, uri)
	var refused *fs.PathError
	if errors.As(err, &refused) && cp.ctx.Err() == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		match, _ := path.Match(part, e.FileName)
		hidden := strings.HasPrefix(e.FileName, ".") && !strings.HasPrefix(part, ".")
		if match && !hidden && !e.IsLossy && !strings.ContainsAny(e.FileName, "/\x00") && e.FileName != "" && e.FileName != "." && e.FileName != ".." {
			found = append(found, path.Join(dir, e.FileName))
		}
	}
	return found, nil
}
