package remote

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"codex.internal/pkg/fileop/archive"
)

// listsEntries is a tree of count files.
type listsEntries struct {
	tree
	count int
}

func (l listsEntries) list(_ listOptions, each func(e *archive.Entry)) error {
	for i := range l.count {
		each(&archive.Entry{Path: strconv.Itoa(i), Type: archive.Listed})
	}
	return nil
}

// TestListsAreBounded: listing a tree with too many entries is an error, and only as many as the
// limit are retained.
func TestListsAreBounded(t *testing.T) {
	y := &syncing{copying: &copying{}, most: 100}
	l, err := y.look(listsEntries{count: 100}, nil, false)
	if err != nil || len(l.entries) != 100 {
		t.Errorf("%d entries, %v", len(l.entries), err)
	}
	l, err = y.look(listsEntries{count: 101}, nil, false)
	if err == nil || !strings.Contains(err.Error(), "more than 100 entries") || len(l.entries) != 100 || len(l.at) != 100 {
		t.Errorf("%d entries, %v", len(l.entries), err)
	}
}

// TestPendingChanges checks which paths the next round of a sync updates after changes of its
// source.
func TestPendingChanges(t *testing.T) {
	exclude, err := archive.Excluder([]string{"*.o", "out"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		git     bool
		changes []sourceChange
		lost    bool
		want    string
	}{
		{"a file", false, []sourceChange{{below: "d/f"}}, false, ". d d/f"},
		{"the source itself", false, []sourceChange{{folder: true}}, false, "."},
		{"gone and made again", false, []sourceChange{{below: "f", gone: true}, {below: "f"}}, false, ". f"},
		{"gone", false, []sourceChange{{below: "f"}, {below: "f", gone: true}}, false, ". f-"},
		{"left out", false, []sourceChange{{below: "a.o"}, {below: "out/x/y"}, {below: "out", gone: true, folder: true}}, false, ""},
		{"lost", false, []sourceChange{{below: "f"}}, true, "whole"},
		{"not UTF-8", false, []sourceChange{{below: "f"}, {below: "\xff"}}, false, "whole"},
		{"an ignore file without git", false, []sourceChange{{below: "d/.gitignore"}}, false, ". d d/.gitignore"},
		{"an ignore file", true, []sourceChange{{below: "d/.gitignore"}}, false, "whole"},
		{"ignored", true, []sourceChange{{below: "a.log"}, {below: ".git/index"}, {below: "logs.log/x"}}, false, ""},
	} {
		y := &syncing{copying: &copying{}, git: tt.git}
		if y.options.exclude = exclude; tt.git {
			y.ignored = &ignored{}
			y.ignored.add("", "*.log\n")
		}
		var p pendingPaths
		y.pend(&p, tt.changes, tt.lost)
		got := "whole"
		if !p.whole {
			var all []string
			if !p.empty() {
				all = p.paths()
			}
			for i, below := range all {
				if p.gone[below] {
					all[i] += "-"
				}
			}
			got = strings.Join(all, " ")
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	var p pendingPaths
	y := &syncing{copying: &copying{}}
	for i := range maxPending + 1 {
		y.pend(&p, []sourceChange{{below: strconv.Itoa(i)}}, false)
	}
	if !p.whole || len(p.gone) > 0 {
		t.Errorf("%d paths wait", len(p.gone))
	}
}

// TestVanishedFilesAreLookedAtAgain: a round for some paths does not report a missing file. The
// next round compares both trees.
func TestVanishedFilesAreLookedAtAgain(t *testing.T) {
	y := &syncing{}
	missing := errors.New("open: no such file or directory")
	if y.defers(missing) || y.again {
		t.Error("it is not reported by a round that looks at everything")
	}
	y.some = true
	if y.defers(errors.New("permission denied")) || y.again || !y.defers(missing) || !y.again {
		t.Error("another error is not reported, or this one is")
	}
}
