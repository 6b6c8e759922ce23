package files

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// plant creates files in a directory from lines: `d/` is a directory, `l -> t` a link, `p|` a pipe,
// and `f=text` a file.
func plant(t testing.TB, dir string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		var err error
		if name, target, ok := strings.Cut(line, " -> "); ok {
			err = os.Symlink(target, filepath.Join(dir, name))
		} else if name, text, ok := strings.Cut(line, "="); ok {
			err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
		} else if name, ok := strings.CutSuffix(line, "|"); ok {
			err = unix.Mkfifo(filepath.Join(dir, name), 0o644)
		} else {
			err = os.MkdirAll(filepath.Join(dir, line), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// planted is a new temporary directory with files in it.
func planted(t testing.TB, lines ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	plant(t, dir, lines...)
	return dir
}

// snapshot describes the contents of a directory, in the notation of plant, sorted.
func snapshot(t testing.TB, dir string) []string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			lines = append(lines, name+" -> "+target)
			return err
		case e.IsDir():
			lines = append(lines, name+"/")
		case e.Type().IsRegular():
			text, err := os.ReadFile(p)
			lines = append(lines, name+"="+string(text))
			return err
		default:
			lines = append(lines, name+"|")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}

func wantTree(t testing.TB, dir string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := snapshot(t, dir); !slices.Equal(got, want) {
		t.Errorf("%s holds\n%q, want\n%q", dir, got, want)
	}
}

func wantContents(t testing.TB, name, want string) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil || string(got) != want {
		t.Errorf("%s holds %.80q, %v; want %.80q", name, got, err, want)
	}
}

func wantMode(t testing.TB, name string, want uint32) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil || st.Mode&0o7777 != want {
		t.Errorf("%s has mode %o, %v; want %o", name, st.Mode&0o7777, err, want)
	}
}

// wantError checks an error. For an error of the operating system it also checks the text: first
// the system's message, and at the end the path.
func wantError(t testing.TB, what string, err, want error, at string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
		return
	}
	var named *OSError
	if errors.As(err, &named) && named.Path != at {
		t.Errorf("%s: the error names %s, want %s", what, named.Path, at)
	}
}

// asNobody runs f on its own thread without root's right to bypass permissions. An ordinary user
// has no such right anyway. The files that f uses must belong to the user nobody: see give.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	mask := unix.Umask(0o022)
	defer unix.Umask(mask)
	for _, id := range []uintptr{unix.SYS_SETFSGID, unix.SYS_SETFSUID} {
		if _, _, errno := unix.RawSyscall(id, nobody, 0, 0); errno != 0 {
			t.Fatal(errno)
		}
	}
	defer func() {
		_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, 0, 0, 0)
		_, _, _ = unix.RawSyscall(unix.SYS_SETFSGID, 0, 0, 0)
	}()
	f()
}

const nobody = 65534

// give gives a tree to the user nobody, and removes all its permissions.
func give(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, nobody, nobody)
	})
	for d := filepath.Dir(dir); err == nil && d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		err = os.Chmod(d, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestErrorsSpeakAsTheReferenceDoes(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		unix.ENOENT:       "No such file or directory (os error 2): /p",
		unix.EACCES:       "Permission denied (os error 13): /p",
		unix.EEXIST:       "File exists (os error 17): /p",
		unix.ENOTDIR:      "Not a directory (os error 20): /p",
		unix.EISDIR:       "Is a directory (os error 21): /p",
		unix.ENAMETOOLONG: "File name too long (os error 36): /p",
		unix.ENOTEMPTY:    "Directory not empty (os error 39): /p",
		unix.ELOOP:        "Too many levels of symbolic links (os error 40): /p",
	} {
		if got := wrap("/p", errno).Error(); got != want {
			t.Errorf("%d: %q, want %q", int(errno), got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	named := wrap("/a", unix.EIO)
	for _, tt := range []struct {
		name     string
		in, want error
		text     string
	}{
		{"nothing", nil, nil, ""},
		{"an error with a path keeps it", named, unix.EIO, "Input/output error (os error 5): /a"},
		{"an error of os gets ours", &os.PathError{Op: "read", Path: "x", Err: unix.EIO}, unix.EIO, "Input/output error (os error 5): /b"},
		{"a rule needs no path", ErrSymlink, ErrSymlink, "path contains a symbolic link"},
		{"a stalled reader", ErrStalled, ErrStalled, "the reader of the pipe or terminal takes no more data: /b"},
	} {
		got := wrap("/b", tt.in)
		if !errors.Is(got, tt.want) || got != nil && got.Error() != tt.text {
			t.Errorf("%s: got %v; want %v, %v", tt.name, got, tt.want, tt.text)
		}
	}
}

func TestClassify(t *testing.T) {
	kinds := map[error]Kind{
		unix.ENOENT: NotFound,
		unix.EINVAL: Invalid, unix.EACCES: Invalid, unix.EPERM: Invalid,
		unix.EIO: Other, unix.ENOTDIR: Other, unix.EISDIR: Other, unix.EEXIST: Other, unix.ELOOP: Other,
		ErrSymlink: Invalid, ErrNotFile: Invalid, ErrSpecial: Invalid, ErrMoved: Invalid,
		ErrTooManyNames: Other, ErrStalled: Other, nil: Other,
	}
	for _, err := range slices.Collect(maps.Keys(kinds)) {
		if got := Classify(wrap("/p", err)); got != kinds[err] {
			t.Errorf("%v is %d, want %d", err, got, kinds[err])
		}
	}
	if got := Classify(notFile("/p")); got != Invalid {
		t.Errorf("a rule with a text of its own is %d", got)
	}
}
