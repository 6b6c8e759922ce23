//go:build linux

package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"codex.internal/pkg/host/dirfd"
	"golang.org/x/sys/unix"
)

// tarOf returns an archive that package archive/tar has written.
func tarOf(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = 3
		}
		h.Mode = 0o755
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			_, _ = w.Write([]byte("abc"))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// puts creates the entries of tar headers in the target one by one, like a copy without
// archives, and returns the errors.
func puts(t *testing.T, target string, headers []tar.Header) (failed []string) {
	t.Helper()
	into, err := dirfd.Open(target)
	if err != nil {
		t.Fatal(err)
	}
	u := NewUnpacker(into, false, UnpackOptions{Preserve: true, Failed: func(path string, err error) { failed = append(failed, path+": "+err.Error()) }})
	defer u.Abort()
	for _, h := range headers {
		e := &Entry{Path: h.Name, Type: Type(h.Typeflag), Target: h.Linkname, Perm: 0o755}
		if err := u.Put(e, strings.NewReader("abc")); err != nil {
			failed = append(failed, h.Name+": "+err.Error())
		}
	}
	return failed
}

// isPuttable reports whether Put accepts entries of all these types.
func isPuttable(headers []tar.Header) bool {
	return !slices.ContainsFunc(headers, func(h tar.Header) bool { return !strings.ContainsRune("025", rune(h.Typeflag)) })
}

// TestNothingLeavesTheTarget tries to create entries outside of a target that contains links,
// as an archive and one by one.
func TestNothingLeavesTheTarget(t *testing.T) {
	file := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg} }
	long := strings.Repeat("d/", MaxDepth) + "f"
	for _, tt := range []struct {
		name    string
		headers []tar.Header
		want    string // a part of the only report
	}{
		{"absolute", []tar.Header{file("/etc/x")}, errName.Error()},
		{"parent", []tar.Header{file("../x")}, errName.Error()},
		{"parent inside", []tar.Header{file("a/../../x")}, errName.Error()},
		{"empty part", []tar.Header{file("a//x")}, errName.Error()},
		{"link on the way", []tar.Header{file("out/x")}, "symbolic link"},
		{"link of the archive", []tar.Header{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../outside"}, file("l/x")}, "symbolic link"},
		{"link as a file", []tar.Header{file("outfile")}, "symbolic link"},
		{"link as a directory", []tar.Header{{Name: "out/", Typeflag: tar.TypeDir}, file("out/x")}, "symbolic link"},
		{"link over a file", []tar.Header{{Name: "file", Typeflag: tar.TypeSymlink, Linkname: "x"}}, errOccupied.Error()},
		{"link over a directory", []tar.Header{{Name: "dir", Typeflag: tar.TypeSymlink, Linkname: "x"}}, errDirectoryHere.Error()},
		{"file over a FIFO", []tar.Header{file("fifo")}, errOccupied.Error()},
		{"file over a directory", []tar.Header{file("dir")}, errDirectoryHere.Error()},
		{"file as a directory", []tar.Header{file("file/x")}, errOccupied.Error()},
		{"file as the target", []tar.Header{file("./.")}, errName.Error()},
		{"hard link", []tar.Header{{Name: "h", Typeflag: tar.TypeLink, Linkname: "../outside/secret"}}, "a hard link"},
		{"device", []tar.Header{{Name: "d", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}}, "a device"},
		{"FIFO", []tar.Header{{Name: "p", Typeflag: tar.TypeFifo}}, "a FIFO"},
		{"deep", []tar.Header{file(long)}, errDeep.Error()},
		{"long", []tar.Header{file(strings.Repeat("x", MaxPath+1))}, errLong.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			headers := append(tt.headers, tar.Header{Name: "last", Typeflag: tar.TypeReg})
			staysInside(t, tt.want, func(target string) []string {
				failed, err := unpack(t, target, UnpackOptions{Preserve: true}, tarOf(t, headers...), 512)
				if err != nil || len(failed) != 1 {
					t.Errorf("got the reports %q and %v, want one report", failed, err)
				}
				return failed
			})
			if isPuttable(headers) {
				staysInside(t, tt.want, func(target string) []string { return puts(t, target, headers) })
			}
		})
	}
}

// staysInside runs fill with a target that contains links to the outside. It checks that
// nothing outside has changed, that the errors of fill have the wanted text, and that the
// last entry exists.
func staysInside(t *testing.T, want string, fill func(target string) (failed []string)) {
	t.Helper()
	dir := t.TempDir()
	target, outside := dir+"/target", dir+"/outside"
	for _, d := range []string{target, outside, target + "/dir"} {
		_ = os.Mkdir(d, 0o755)
	}
	_ = os.WriteFile(outside+"/secret", []byte("secret"), 0o644)
	_ = os.WriteFile(target+"/file", []byte("old"), 0o644)
	_ = os.Symlink("../outside", target+"/out")
	_ = os.Symlink("../outside/secret", target+"/outfile")
	if err := unix.Mkfifo(target+"/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, outside)
	failed := fill(target)
	if len(failed) == 0 || !strings.Contains(failed[0], want) {
		t.Errorf("got the reports %q, want %q", failed, want)
	}
	if after := snapshot(t, outside); !slices.Equal(after, before) {
		t.Errorf("outside of the target: got %q, want %q", after, before)
	}
	if data, err := os.ReadFile(target + "/last"); err != nil || string(data) != "abc" {
		t.Errorf("the entry after the refused one: got %q, %v", data, err)
	}
	if data, _ := os.ReadFile(target + "/file"); string(data) != "old" {
		t.Errorf("the file that was there: got %q, want the old text", data)
	}
	if st, err := os.Lstat(target + "/fifo"); err != nil || st.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the FIFO that was there: got %v, %v", st, err)
	}
	if left, _ := filepath.Glob(target + "/.*.tmp"); left != nil {
		t.Errorf("temporary files: got %q, want none", left)
	}
}

// TestMalformedArchives: a malformed archive ends with an error and leaves no files behind.
func TestMalformedArchives(t *testing.T) {
	good := appendHeader(nil, &Entry{Path: "f", Type: File, Size: 600})
	end := make([]byte, 2*block)
	change := func(change func(b []byte)) []byte {
		b := bytes.Clone(good)
		change(b)
		return b
	}
	sealed := func(b []byte) []byte { return seal((*[block]byte)(b)) }
	extended := func(records string) []byte { return appendExtended(nil, []byte(records)) }
	bomb := change(func(b []byte) {
		b[fieldType.at] = typeExtended
		putOctal(fieldSize.of(b), maxExtended+1)
		sealed(b)
	})
	sparse := func(ranges string) []byte {
		b := appendRecord(nil, recordHoles, ranges)
		return append(appendExtended(nil, b), good...)
	}
	for name, tt := range map[string]struct {
		text []byte
		want error
	}{
		"empty":                {nil, errShort},
		"cut":                  {append(bytes.Clone(good), make([]byte, 100)...), errShort},
		"one block of zeros":   {make([]byte, block), errShort},
		"more behind the end":  {append(bytes.Clone(end), good...), errEnd},
		"checksum":             {change(func(b []byte) { b[0]++ }), errChecksum},
		"magic":                {change(func(b []byte) { fieldMagic.of(b)[0]++; putOctal(fieldSum.of(b)[:7], checksum(b)) }), errMagic},
		"size":                 {change(func(b []byte) { copy(fieldSize.of(b), "9zz"); sealed(b) }), errSize},
		"binary size":          {change(func(b []byte) { fieldSize.of(b)[0] = 0x80; sealed(b) }), errSize},
		"extended header bomb": {bomb, errExtended},
		"two extended":         {append(extended("6 a=b\n"), extended("6 a=b\n")...), errExtended},
		"extended, then end":   {append(extended("6 a=b\n"), end...), errEnd},
		"record too long":      {extended("9 a=b\n"), errExtended},
		"record too short":     {extended("3 a=b\n"), errExtended},
		"record without end":   {extended("6 a=bx"), errExtended},
		"record without value": {extended("5 ab\n"), errExtended},
		"negative size":        {extended("11 size=-1\n"), errExtended},
		"no time":              {extended("11 mtime=x\n"), errExtended},
		"large time":           {extended("30 mtime=99999999999999999999\n"), errExtended},
		"no sparse map":        {sparse("x"), errHoles},
		"sparse beyond size":   {sparse("10 5:600"), errHoles},
		"sparse overlap":       {sparse("10000 100:300 200:300"), errHoles},
		"sparse negative":      {sparse("10000 -5:600"), errHoles},
		"sparse other sum":     {sparse("10000 5:599"), errHoles},
		"directory with data":  {change(func(b []byte) { b[fieldType.at] = '5'; sealed(b) }), errSize},
	} {
		t.Run(name, func(t *testing.T) {
			target := t.TempDir()
			_, err := unpack(t, target, UnpackOptions{}, tt.text, 100)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
			if left, _ := os.ReadDir(target); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// cutReader returns text, and then an error.
type cutReader struct{ text *strings.Reader }

var errCut = errors.New("the connection was cut")

func (r cutReader) Read(b []byte) (int, error) {
	if n, err := r.text.Read(b); err == nil {
		return n, nil
	}
	return 0, errCut
}

// TestPut: a file is as long as its reader, and an existing file keeps its permissions. If the
// reader fails, no file is left.
func TestPut(t *testing.T) {
	target := t.TempDir()
	for _, name := range []string{"old", "cut"} {
		if err := os.WriteFile(filepath.Join(target, name), []byte("was here"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	into, err := dirfd.Open(target)
	if err != nil {
		t.Fatal(err)
	}
	u := NewUnpacker(into, false, UnpackOptions{Failed: func(path string, err error) { t.Errorf("%s: got error %v, want no error", path, err) }})
	defer u.Abort()
	for _, tt := range []struct {
		name string
		size int64 // the size in the entry
		r    io.Reader
		want error
		text string
	}{
		{"new/deep/file", 3, strings.NewReader("abc"), nil, "abc"},
		{"longer", 1, strings.NewReader("abc"), nil, "abc"},
		{"shorter", 9, strings.NewReader("abc"), nil, "abc"},
		{"old", 3, strings.NewReader("abc"), nil, "abc"},
		{"cut", 3, cutReader{strings.NewReader("ab")}, errCut, "was here"},
	} {
		err := u.Put(&Entry{Path: tt.name, Type: File, Perm: 0o644, Size: tt.size}, tt.r)
		if data, _ := os.ReadFile(filepath.Join(target, tt.name)); !errors.Is(err, tt.want) || string(data) != tt.text {
			t.Errorf("%s: got %q, %v; want %q, %v", tt.name, data, err, tt.text, tt.want)
		}
	}
	if st, err := os.Stat(filepath.Join(target, "old")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the permissions of the file that was there: got %v, %v; want 0600", st, err)
	}
	if left, _ := filepath.Glob(target + "/.*.tmp"); left != nil {
		t.Errorf("temporary files: got %q, want none", left)
	}
}

// TestBrokenFilesAreNotKept: if a file becomes shorter while it is read, the copy of it is
// removed.
func TestBrokenFilesAreNotKept(t *testing.T) {
	source, target := t.TempDir(), t.TempDir()
	_ = os.WriteFile(source+"/f", make([]byte, 1<<20), 0o644)
	_ = os.WriteFile(source+"/g", []byte("g"), 0o644)
	_ = os.WriteFile(target+"/f", []byte("old"), 0o644)
	p := NewPacker(openDir(t, source), PackOptions{})
	defer p.Close()
	var failed []string
	u := NewUnpacker(openDir(t, target), false, UnpackOptions{Failed: func(path string, err error) { failed = append(failed, path+": "+err.Error()) }})
	b := make([]byte, 100<<10)
	for first := true; ; first = false {
		n, err := p.Read(b)
		if _, err := u.Write(b[:n]); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			break
		}
		if first {
			_ = os.Truncate(source+"/f", 200<<10)
		}
	}
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	old, _ := os.ReadFile(target + "/f")
	g, _ := os.ReadFile(target + "/g")
	if string(old) != "old" || string(g) != "g" || len(failed) != 1 || !strings.Contains(failed[0], "f: the file became shorter") {
		t.Errorf(`got old %q, %q, failed %q; want old "old", "g", len(failed) 1, failed[0] with "f: the file became shorter"`, old, g, failed)
	}
}

// TestOddEntriesAreReported: the archive names unreadable files, and contains all others.
func TestOddEntriesAreReported(t *testing.T) {
	source, target := t.TempDir(), t.TempDir()
	_ = unix.Mkfifo(source+"/fifo", 0o644)
	_ = os.WriteFile(source+"/z", []byte("z"), 0o644)
	at := source
	for range MaxDepth + 1 {
		at += "/d"
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	failed, err := unpack(t, target, UnpackOptions{}, pack(t, source, PackOptions{}, 1<<20), 1<<20)
	if err != nil || len(failed) != 2 || !strings.HasSuffix(failed[0], errDeep.Error()) || failed[1] != "fifo: "+errSpecial.Error() {
		t.Errorf(`got error %v, failed %q; want no error, len(failed) 2, failed[0] ending in errDeep.Error(), failed[1] "fifo: "+errSpecial.Error()`, err, failed)
	}
	if _, err := os.Stat(target + "/z"); err != nil {
		t.Error(err)
	}
}

// TestPermissions: a new file has the archive's permissions less the umask, and an existing
// file keeps its own. With Preserve, all files get the archive's permissions.
func TestPermissions(t *testing.T) {
	old := unix.Umask(0o027)
	defer unix.Umask(old)
	source, target := t.TempDir(), t.TempDir()
	_ = os.Mkdir(source+"/d", 0o777)
	_ = os.Chmod(source+"/d", 0o577)
	for _, name := range []string{"new", "old"} {
		_ = os.WriteFile(source+"/"+name, nil, 0o644)
		_ = os.Chmod(source+"/"+name, 0o666)
	}
	_ = os.WriteFile(target+"/old", nil, 0o600)
	text := pack(t, source, PackOptions{}, 1000)
	for _, tt := range []struct {
		preserve  bool
		new, old  os.FileMode
		directory os.FileMode
	}{{false, 0o640, 0o600, 0o550}, {true, 0o666, 0o666, 0o577}} {
		if failed, err := unpack(t, target, UnpackOptions{Preserve: tt.preserve}, text, 1000); err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		for name, want := range map[string]os.FileMode{"new": tt.new, "old": tt.old, "d": tt.directory} {
			if st, err := os.Stat(target + "/" + name); err != nil || st.Mode().Perm() != want {
				t.Errorf("preserve %v: %s: %v, want %v, %v", tt.preserve, name, st.Mode(), want, err)
			}
		}
	}
}

// TestManyEntries: memory does not grow with the number of entries of an archive.
func TestManyEntries(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	count := 0
	u := NewUnpacker(openDir(t, t.TempDir()), false, UnpackOptions{Failed: func(string, error) { count++ }})
	defer u.Abort()
	const entries = 1_000_000
	var piece []byte
	for i := range entries {
		piece = appendHeader(piece[:0], &Entry{Path: fmt.Sprintf("../%d", i), Type: File})
		if _, err := u.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := u.Write(make([]byte, 2*block)); err != nil {
		t.Fatal(err)
	}
	if err := u.Close(); err != nil || count != entries {
		t.Errorf("%d reports, %v", count, err)
	}
	p := parser{to: &collected{}, entries: MaxEntries}
	if err := p.write(appendHeader(nil, &Entry{Path: "f", Type: File})); !errors.Is(err, errEntries) {
		t.Error(err)
	}
}

// TestGoldenArchive compares the bytes of an archive with fixed ones.
func TestGoldenArchive(t *testing.T) {
	var b []byte
	for _, e := range []Entry{
		{Path: ".", Type: Directory, Perm: 0o755, Modified: time.Unix(1e9, 0)},
		{Path: "a/" + strings.Repeat("x", 120), Type: Link, Target: strings.Repeat("t", 101), Perm: 0o777, Modified: time.Unix(1e9, 5)},
		{Path: "f", Type: File, Perm: 0o640, Size: 1 << 40, Extents: []Extent{{1 << 20, 3}}, UID: 1 << 24, GID: 7},
		{Path: "m", Type: Listed, Size: 1 << 40, Sum: "abc", Modified: time.Unix(-2, 500_000_000)},
		{Path: "p", Type: Problem, Text: "no", Discard: true},
	} {
		b = appendHeader(b, &e)
		if e.Type == File {
			b = append(append(b, "abc"...), zeros[:block-3]...)
		}
	}
	b = append(b, make([]byte, 2*block)...)
	name := filepath.Join("testdata", "golden.tar")
	if os.Getenv("CODEX_UPDATE_GOLDEN") != "" {
		_ = os.WriteFile(name, b, 0o644)
	}
	want, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(b, want) {
		t.Fatalf("the archive has changed: %v", err)
	}
	list := entriesOf(t, want)
	if len(list) != 5 || list[1].Target != strings.Repeat("t", 101) || list[1].Modified.UnixNano() != 1e18+5 || list[2].Size != 1<<40 ||
		list[2].UID != 1<<24 || !slices.Equal(list[2].Extents, []Extent{{1 << 20, 3}}) || list[3].Size != 1<<40 ||
		list[3].Modified.UnixNano() != -1_500_000_000 || list[4].Text != "no" || !list[4].Discard {
		t.Errorf(`got %+v; want len(list) 5, list[1].Target %v, list[1].Modified.UnixNano() %v, list[2].Size %v, list[2].UID %v, list[2].Extents []Extent{{1 << 20, 3}}, list[3].Size %v, list[3].Modified.UnixNano() -1_500_000_000, list[4].Text "no", list[4].Discard true`, list, strings.Repeat("t", 101), 1e18+5, 1<<40, 1<<24, 1<<40)
	}
	if out, err := exec.Command("tar", "tf", name).CombinedOutput(); err == nil && !strings.Contains(string(out), "./") {
		t.Errorf("tar lists %q", out)
	}
}

// FuzzUnpack unpacks any bytes: no file outside of the target is written, and no
// temporary file is left.
func FuzzUnpack(f *testing.F) {
	golden, err := os.ReadFile(filepath.Join("testdata", "golden.tar"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden, uint16(512))
	f.Add(appendHeader(nil, &Entry{Path: "../x", Type: File}), uint16(1))
	f.Add(append(appendHeader(nil, &Entry{Path: "l", Type: Link, Target: ".."}), appendHeader(nil, &Entry{Path: "l/x", Type: File})...), uint16(100))
	f.Fuzz(func(t *testing.T, text []byte, n uint16) {
		parent := t.TempDir()
		target := parent + "/target"
		if err := os.Mkdir(target, 0o755); err != nil {
			t.Fatal(err)
		}
		_, _ = unpack(t, target, UnpackOptions{Preserve: true}, text, max(1, int(n)))
		names, err := os.ReadDir(parent)
		if err != nil || len(names) != 1 {
			t.Errorf("beside the target: %v, %v", names, err)
		}
		if left, _ := filepath.Glob(target + "/.????????????????????????????????.tmp"); left != nil {
			t.Errorf("left behind: %q", left)
		}
	})
}

// TestUnwantedEntries: entries that Wanted refuses are reported, and all others are created.
func TestUnwantedEntries(t *testing.T) {
	text := tarOf(t,
		tar.Header{Name: "./", Typeflag: tar.TypeDir}, tar.Header{Name: "a", Typeflag: tar.TypeReg},
		tar.Header{Name: "no/", Typeflag: tar.TypeDir}, tar.Header{Name: "no/x", Typeflag: tar.TypeReg}, tar.Header{Name: "./no", Typeflag: tar.TypeReg},
		tar.Header{Name: "d/", Typeflag: tar.TypeDir}, tar.Header{Name: "d/no", Typeflag: tar.TypeSymlink, Linkname: "x"}, tar.Header{Name: "d/b", Typeflag: tar.TypeReg})
	target := t.TempDir()
	into, err := dirfd.Open(target)
	if err != nil {
		t.Fatal(err)
	}
	var asked, failed []string
	u := NewUnpacker(into, false, UnpackOptions{
		Wanted: func(path string, isDirectory bool) bool {
			asked = append(asked, fmt.Sprint(path, isDirectory))
			return filepath.Base(path) != "no"
		},
		Failed: func(path string, err error) { failed = append(failed, fmt.Sprint(path, ": ", err)) },
	})
	if _, err := u.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	unwanted := ": " + errUnwanted.Error()
	if got, want := strings.Join(failed, "\n"), strings.Join([]string{"no" + unwanted, "./no" + unwanted, "d/no" + unwanted}, "\n"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got, want := strings.Join(asked, " "), ".true afalse notrue nofalse dtrue d/nofalse d/bfalse"; got != want {
		t.Errorf("asked about %q, want %q", got, want)
	}
	for name, want := range map[string]bool{"a": true, "no": false, "d/no": false, "d/b": true} {
		if _, err := os.Lstat(filepath.Join(target, name)); (err == nil) != want {
			t.Errorf("%s: got error %v, want success: %v", name, err, want)
		}
	}
}
