//go:build linux || darwin

package files

import (
	"context"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Entry is one name in a directory. A name that is no UTF-8 is lossy and has
// U+FFFD in place of the odd bytes.
type Entry struct {
	Name                string
	IsDirectory, IsFile bool
	IsLossy             bool
}

// ReadDirectory lists a directory, sorted by the bytes of the names. Links
// count as what they lead to; those that lead nowhere are left out. A
// directory with more than a million names is ErrTooManyNames.
func ReadDirectory(ctx context.Context, name string) ([]Entry, error) {
	fd, err := open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0, Options{})
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	names, err := sortedNames(ctx, fd, maxNames)
	if err != nil {
		return nil, wrap(name, err)
	}
	entries := make([]Entry, 0, len(names))
	for _, e := range names {
		if e.mode == unix.S_IFLNK {
			// The only entries that cost a system call each.
			if err := ended(ctx); err != nil {
				return nil, err
			}
			var st unix.Stat_t
			if unix.Fstatat(fd, e.name, &st, 0) != nil {
				continue
			}
			e.mode = fileType(&st)
		}
		entry := Entry{Name: e.name, IsDirectory: e.mode == unix.S_IFDIR, IsFile: e.mode == unix.S_IFREG}
		if !utf8.ValidString(e.name) {
			entry.Name, entry.IsLossy = lossy(e.name), true
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// lossy puts U+FFFD in the place of bytes that belong to no character: one for
// each byte, or for each beginning of a character that breaks off (as Unicode
// recommends and the reference does).
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
