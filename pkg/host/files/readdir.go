package files

import (
	"context"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Entry is one name in a directory. IsLossy means that the name is not UTF-8, and that each invalid
// byte was replaced by U+FFFD.
type Entry struct {
	Name                string
	IsDirectory, IsFile bool
	IsLossy             bool
	Attributes          *Attributes // of the name itself; nil: not asked for, or not readable
}

// ReadDirectory lists a directory, sorted by the bytes of the names. A link has the type of its
// target; dangling links are omitted. If a directory has more than a million names, the error is
// ErrTooManyNames.
//
// With attributes, each entry has attributes, and dangling links are listed without a type. Names
// that were removed meanwhile are omitted. A name whose attributes cannot be read, as in a directory that may be
// listed but not entered, has none.
func ReadDirectory(ctx context.Context, name string, attributes bool) ([]Entry, error) {
	fd, names, err := openNames(ctx, name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	entries := make([]Entry, 0, len(names))
	for _, e := range names {
		if e.mode == unix.S_IFLNK {
			// Each link costs a system call.
			if err := checkContext(ctx); err != nil {
				return nil, err
			}
			var st unix.Stat_t
			if unix.Fstatat(fd, e.name, &st, 0) == nil {
				e.mode = fileType(&st)
			} else if !attributes {
				continue
			}
		}
		entry := Entry{Name: e.name, IsDirectory: e.mode == unix.S_IFDIR, IsFile: e.mode == unix.S_IFREG}
		if attributes {
			if err := checkContext(ctx); err != nil {
				return nil, err
			}
			a, err := attributesAt(fd, e.name)
			if err == unix.ENOENT {
				continue
			}
			if err == nil {
				entry.Attributes = &a
			}
		}
		if !utf8.ValidString(e.name) {
			entry.Name, entry.IsLossy = lossy(e.name), true
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// lossy replaces invalid UTF-8 by U+FFFD: one for each byte, or for each
// truncated character (as Unicode recommends and Codex CLI does).
func lossy(name string) string {
	var b strings.Builder
	for name != "" {
		r, n := utf8.DecodeRuneInString(name)
		if r == utf8.RuneError && n == 1 {
			for n < utf8.UTFMax && n < len(name) && !utf8.FullRuneInString(name[:n+1]) {
				n++
			}
			if n > 1 && utf8.FullRuneInString(name[:1]) {
				n = 1
			}
		}
		b.WriteRune(r)
		name = name[n:]
	}
	return b.String()
}
