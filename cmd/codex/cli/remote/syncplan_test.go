package remote

import (
	"slices"
	"testing"
	"time"

	"codex.internal/pkg/fileop/archive"
)

// listsSums is a tree of one file, with a checksum if that is requested.
type listsSums struct {
	tree
	entry archive.Entry
	sum   string
	sums  *int // the number of requested checksums
}

func (l listsSums) list(o listOptions, each func(e *archive.Entry)) error {
	e := l.entry
	if o.checksums {
		*l.sums++
		e.Sum = l.sum
	}
	each(&e)
	return nil
}

// TestTimesThatAreNotStored: files whose times differ, but may differ because the file system of the target stores
// times in other units, are compared by their contents.
func TestTimesThatAreNotStored(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	for _, tt := range []struct {
		name          string
		exact, stored time.Time
		sum           string
		same          bool
		sums          int
	}{
		{"the same time", at, at.Truncate(time.Microsecond), "1", true, 0},
		{"seconds", at, at.Truncate(time.Second), "1", true, 2},
		{"two seconds", at, at.Truncate(2 * time.Second), "1", true, 2},
		{"other contents", at, at.Truncate(time.Second), "2", false, 2},
		{"another time", at, at.Add(-time.Hour), "1", false, 0},
		{"beyond the times of the target", time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(1<<31-1, 0), "1", true, 2},
	} {
		sums := 0
		y := &syncing{copying: &copying{}, most: 9}
		from := listsSums{entry: archive.Entry{Path: "f", Type: archive.Listed, Size: 3, Modified: tt.exact}, sum: "1", sums: &sums}
		to := listsSums{entry: archive.Entry{Path: "f", Type: archive.Listed, Size: 3, Modified: tt.stored}, sum: tt.sum, sums: &sums}
		source, err := y.look(from, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		target, err := y.look(to, nil, false)
		if err == nil {
			err = y.compareContents(from, to, source, target)
		}
		same := len(y.changed(source, target, nil)) == 0
		if err != nil || same != tt.same || sums != tt.sums {
			t.Errorf("%s: same %v, %d checksums, %v; want %v, %d", tt.name, same, sums, err, tt.same, tt.sums)
		}
	}
}

// TestLockedDirectories: before entries are removed, their directories become writable for their owner.
func TestLockedDirectories(t *testing.T) {
	target := &listed{at: make(map[string]*archive.Entry)}
	for path, perm := range map[string]uint32{".": 0o755, "m": 0o555, "m/sub": 0o500, "other": 0o555} {
		target.at[path] = &archive.Entry{Path: path, Type: archive.Directory, Perm: perm}
	}
	doomed := []*archive.Entry{{Path: "f"}, {Path: "m/a"}, {Path: "m/b"}, target.at["m/sub"], {Path: "m/sub/c"}}
	var got []string
	for _, e := range locked(target, doomed) {
		got = append(got, e.Path)
	}
	if want := []string{"m", "m/sub"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestSummaryOfASync counts in the words of the last line.
func TestSummaryOfASync(t *testing.T) {
	for count, want := range map[syncCount]string{
		{}:                                  "nothing has changed",
		{changed: 1, files: 1}:              "1 file copied, 0 B",
		{changed: 2, files: 0}:              "0 files copied, 0 B",
		{changed: 9, files: 3, bytes: 2048}: "3 files copied, 2.0 KiB",
		{changed: 9, files: 3, bytes: 2048, removed: 2}: "3 files copied, 2.0 KiB; 2 removed",
		{removed: 2}: "0 files copied, 0 B; 2 removed",
	} {
		if got := count.summary(); got != want {
			t.Errorf("%+v: got %q, want %q", count, got, want)
		}
	}
}
