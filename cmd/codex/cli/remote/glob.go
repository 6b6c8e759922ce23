package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"codex.internal/pkg/execclient"
)

var errNoMatch = errors.New("no file of the server matches")

// matcher finds the files of the server that match patterns.
type matcher struct {
	ctx context.Context
	fs  *execclient.FS
	at  places
}

// expand replaces paths of the server that contain * ? or [ by the matching paths, each with a
// colon. If a file has exactly such a name, the path means that file. verb is the requested
// operation, for errors.
func (m *matcher) expand(verb string, sources []string) ([]string, error) {
	var all []string
	for _, source := range sources {
		pattern := strings.TrimPrefix(source, ":")
		if !strings.ContainsAny(source, "*?[") || strings.HasPrefix(pattern, "file:") {
			all = append(all, source)
			continue
		}
		uri, err := m.at.uri(pattern)
		if err != nil {
			return nil, err
		}
		if _, err := m.fs.Stat(m.ctx, uri); err == nil {
			all = append(all, source)
			continue
		}
		found, err := m.glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", verb, source, withoutPath(err))
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s %s: %w", verb, source, errNoMatch)
		}
		for _, typed := range found {
			all = append(all, ":"+typed)
		}
		if len(all) > maxMatches {
			return nil, fmt.Errorf("%s %s: more than %d files match; name their directory, with -r", verb, source, maxMatches)
		}
	}
	return all, nil
}

// glob returns the paths that match a pattern, sorted in each directory. As in a shell, * does
// not match a slash, nor a dot at the beginning of a name.
func (m *matcher) glob(pattern string) ([]string, error) {
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
			names, err := m.matches(dir, part)
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

// matches returns the paths of the names in a directory that match one part of a pattern. It
// returns none if the path is not a directory or cannot be read.
func (m *matcher) matches(dir, part string) ([]string, error) {
	if _, err := path.Match(part, ""); err != nil {
		return nil, fmt.Errorf("%s: %w", part, err)
	}
	uri, err := m.at.uri(dir)
	if err != nil {
		return nil, err
	}
	entries, err := m.fs.ReadDir(m.ctx, uri)
	var refused *fs.PathError
	if errors.As(err, &refused) && m.ctx.Err() == nil {
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
