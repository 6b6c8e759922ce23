package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A race changes what a call means while a supervisor looks at it: two threads make a call again and again, one thread
// exchanges the directory, the path in memory, the working directory or the descriptor. Half of the calls mean a file of the
// attacker, the other half a guarded one.

func init() {
	attacks["race"] = raceFor
	attacks["races"] = func([]string) {
		for _, r := range allRaces() {
			fmt.Println("race: " + r.name)
		}
	}
}

// callers is how many threads make the calls of a race.
const callers = 2

// race is one such attack.
type race struct {
	name string
	// call makes the call once; n is different each time.
	call func(a *arena, n int) error
	// disturb changes once what the call means.
	disturb func(a *arena, n int)
}

// arena has the files of a race. The directories own and guarded contain the same names.
type arena struct {
	dir     string // contains everything that is made
	own     string // a directory of the attacker
	guarded string // the directory that must not change
	spot    string // a name that is exchanged: a directory, or a link to the guarded one
	link    string // the name that it is exchanged with
	path    func(name string) *flipping
	paths   []*flipping
	how     *unix.OpenHow // whose flags are exchanged
	fds     [2]int        // of the directories
	files   [2]int        // of a file in each, open for reading
	fd      int           // the number of a descriptor that is exchanged
	socket  []int         // the sockets of each caller
}

// flipping is a path in memory whose byte at is exchanged.
type flipping struct {
	text []byte
	at   int
}

func (f *flipping) pointer() uintptr { return uintptr(unsafe.Pointer(&f.text[0])) }

func (f *flipping) set(c byte) { *(*byte)(unsafe.Pointer(&f.text[f.at])) = c }

func newArena(dir, guarded string) *arena {
	a := &arena{dir: dir, own: dir + "/o", guarded: guarded, spot: dir + "/spot", link: dir + "/link", fd: 200}
	for _, d := range []string{dir, a.own, a.spot, a.own + "/hooks", a.spot + "/hooks", a.own + "/" + filepath.Base(guarded)} {
		broken("mkdir", os.MkdirAll(d, 0o755))
	}
	for _, name := range []string{a.own + "/config", a.spot + "/config", dir + "/source"} {
		broken("write", os.WriteFile(name, []byte("own"), 0o644))
	}
	broken("symlink", unix.Symlink(guarded, a.link))
	broken("symlink", unix.Symlink(guarded, dir+"/g"))
	broken("symlink", unix.Symlink(filepath.Dir(guarded), dir+"/w"))
	a.path = func(name string) *flipping {
		f := &flipping{text: append([]byte(dir+"/o/"+name), 0), at: len(dir) + 1}
		a.paths = append(a.paths, f)
		return f
	}
	for i, d := range []string{a.own, guarded} {
		var err error
		a.fds[i], err = unix.Open(d, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		broken("open the directory", err)
		a.files[i], err = unix.Open(d+"/config", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		broken("open the file", err)
	}
	broken("dup", unix.Dup3(a.fds[0], a.fd, unix.O_CLOEXEC))
	broken("dup", unix.Dup3(a.files[0], a.fd+1, unix.O_CLOEXEC))
	a.how = &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC}
	return a
}

// state describes what must not change. The time of change of a file shows each change of its attributes, content and links,
// that of a directory each change of its entries.
func (a *arena) state() []unix.Stat_t {
	var all []unix.Stat_t
	for _, name := range []string{a.guarded, a.guarded + "/config", a.guarded + "/hooks", filepath.Dir(a.guarded) + "/.codex"} {
		var st unix.Stat_t
		if unix.Lstat(name, &st) != nil {
			st = unix.Stat_t{}
		}
		st.Atim, st.Blocks = unix.Timespec{}, 0
		all = append(all, st)
	}
	return all
}

// raceFor runs one race. args: its name, a directory in which it makes files, the guarded directory, and the milliseconds that it may take.
func raceFor(args []string) {
	debug.SetGCPercent(-1) // a collection would wait for threads in a call
	milliseconds, err := strconv.Atoi(args[3])
	broken("arguments", err)
	all := allRaces()
	i := slices.IndexFunc(all, func(r *race) bool { return r.name == args[0] })
	if i < 0 {
		broken("find the race "+args[0], unix.ENOENT)
	}
	r, a := all[i], newArena(args[1], args[2])
	for n := range 2 { // all paths exist in memory before threads begin
		_ = r.call(a, -1-n)
	}
	before := a.state()
	var stop atomic.Bool
	var made, failed, changes atomic.Int64
	var last atomic.Value
	var wait sync.WaitGroup
	for c := range callers {
		wait.Go(func() {
			runtime.LockOSThread()
			for n := c; !stop.Load(); n += callers {
				if err := r.call(a, n); err == nil {
					made.Add(1)
				} else {
					failed.Add(1)
					last.Store(err.Error())
				}
			}
		})
	}
	wait.Go(func() {
		runtime.LockOSThread()
		for n := 0; !stop.Load(); n++ {
			r.disturb(a, n)
			changes.Add(1)
		}
	})
	won := false
	// On a busy machine it may take longer until one call succeeds.
	end := time.Now().Add(time.Duration(milliseconds) * time.Millisecond)
	for latest := end.Add(10 * time.Second); !won && (time.Now().Before(end) || made.Load() == 0 && time.Now().Before(latest)); {
		time.Sleep(time.Millisecond)
		won = !slices.Equal(a.state(), before)
	}
	stop.Store(true)
	wait.Wait()
	won = won || !slices.Equal(a.state(), before)
	if won {
		breach(r.name)
	}
	fmt.Printf("made %d, failed %d (%v), changes %d\n", made.Load(), failed.Load(), last.Load(), changes.Load())
	if made.Load() == 0 && !won {
		broken("make any call", errors.New("none succeeded"))
	}
	held(r.name, unix.EACCES)
}

// fds closes the descriptor of a call that succeeded, after having written to it.
func written(fd uintptr, errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	_, _ = unix.Pwrite(int(fd), []byte("evil"), 0)
	return unix.Close(int(fd))
}

func failure(errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// exchangeSpot is the disturbance of a directory that is exchanged with a link.
func exchangeSpot(a *arena, _ int) { _ = exchange(a.spot, a.link) }

// flip is the disturbance of paths in memory: the directory o becomes the link to the guarded directory, and back.
func flip(to byte) func(a *arena, n int) {
	return func(a *arena, n int) {
		c := byte('o')
		if n%2 == 1 {
			c = to
		}
		for range 64 {
			for _, p := range a.paths {
				p.set(c)
			}
		}
		runtime.Gosched()
	}
}

// exchangeDescriptors is the disturbance of a number of a descriptor.
func exchangeDescriptors(a *arena, n int) {
	_ = unix.Dup3(a.fds[n%2], a.fd, unix.O_CLOEXEC)
	_ = unix.Dup3(a.files[n%2], a.fd+1, unix.O_CLOEXEC)
}

func changeDirectory(a *arena, n int) { _ = unix.Fchdir(a.fds[n%2]) }

// times are a time that is different in each call.
func times(n int) []unix.Timespec {
	return []unix.Timespec{{Sec: int64(1000 + max(n, 0))}, {Sec: int64(1000 + max(n, 0))}}
}

func label(n int) string { return strconv.Itoa(n) }

// allRaces returns all races.
func allRaces() []*race {
	all := append(directoryRaces(), memoryRaces()...)
	all = append(all, descriptorRaces()...)
	all = append(all, oldRaces()...)
	return append(all, &race{"the working directory: open", func(_ *arena, _ int) error {
		fd, errno := raw(unix.SYS_OPENAT, at, relative, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		return written(fd, errno)
	}, changeDirectory}, &race{"the working directory: chmod", func(_ *arena, n int) error {
		_, errno := raw(unix.SYS_FCHMODAT, at, relative, 0o600+uintptr(n&7))
		return failure(errno)
	}, changeDirectory}, &race{"the working directory: mkdir", func(a *arena, n int) error {
		err := unix.Mkdir("new-"+label(n), 0o755)
		_ = unix.Rmdir(a.own + "/new-" + label(n))
		return err
	}, changeDirectory})
}

var relative = text("config")

// oldRaces are those of calls that only some architectures have.
var oldRaces = func() []*race { return nil }

func directoryRaces() []*race {
	var all []*race
	add := func(name string, call func(a *arena, n int) error) {
		all = append(all, &race{"a directory: " + name, call, exchangeSpot})
	}
	write := func(flags uint64, mode uint32) func(*arena, int) error {
		return func(a *arena, _ int) error {
			fd, err := unix.Openat(unix.AT_FDCWD, a.spot+"/config", int(flags)|unix.O_CLOEXEC, mode)
			if err != nil {
				return err
			}
			return written(uintptr(fd), 0)
		}
	}
	add("open", write(unix.O_WRONLY, 0))
	add("open with O_TRUNC", write(unix.O_RDONLY|unix.O_TRUNC, 0))
	add("open with O_CREAT", write(unix.O_RDWR|unix.O_CREAT, 0o644))
	add("openat2", func(a *arena, _ int) error {
		fd, err := unix.Openat2(unix.AT_FDCWD, a.spot+"/config", &unix.OpenHow{Flags: unix.O_RDWR | unix.O_CLOEXEC})
		return written(uintptr(fd), errnoOf(err))
	})
	add("create", func(a *arena, n int) error {
		fd, err := unix.Openat(unix.AT_FDCWD, a.spot+"/new"+label(n), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
		return written(uintptr(fd), errnoOf(err))
	})
	add("O_TMPFILE", func(a *arena, n int) error {
		fd, err := unix.Openat(unix.AT_FDCWD, a.spot, unix.O_WRONLY|unix.O_TMPFILE|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+label(fd), unix.AT_FDCWD, a.spot+"/tmp"+label(n), unix.AT_SYMLINK_FOLLOW)
	})
	add("chmod", func(a *arena, n int) error {
		return unix.Fchmodat(unix.AT_FDCWD, a.spot+"/config", 0o600+uint32(n&7), 0)
	})
	add("chown", func(a *arena, _ int) error {
		return unix.Fchownat(unix.AT_FDCWD, a.spot+"/config", os.Getuid(), os.Getgid(), 0)
	})
	add("utimensat", func(a *arena, n int) error {
		return unix.UtimesNanoAt(unix.AT_FDCWD, a.spot+"/config", times(n), 0)
	})
	add("setxattr", func(a *arena, n int) error {
		return unix.Setxattr(a.spot+"/config", "user.race", []byte(label(n)), 0)
	})
	add("truncate", func(a *arena, n int) error { return unix.Truncate(a.spot+"/config", int64(n&7)) })
	add("link into", func(a *arena, n int) error { return unix.Link(a.dir+"/source", a.spot+"/link"+label(n)) })
	add("link out of", func(a *arena, n int) error {
		name := a.dir + "/stolen" + label(n)
		err := unix.Link(a.spot+"/config", name)
		if err == nil {
			_ = unix.Unlink(name)
		}
		return err
	})
	add("unlink", func(a *arena, n int) error {
		_ = open(a.dir+"/o/config"+label(n), unix.O_WRONLY|unix.O_CREAT)
		_ = unix.Rename(a.dir+"/o/config"+label(n), a.spot+"/config")
		return unix.Unlink(a.spot + "/config")
	})
	add("rename into", func(a *arena, n int) error {
		name := a.own + "/f" + label(n)
		_ = open(name, unix.O_WRONLY|unix.O_CREAT)
		return unix.Rename(name, a.spot+"/f"+label(n))
	})
	add("rename out of", func(a *arena, n int) error {
		err := unix.Rename(a.spot+"/hooks", a.dir+"/stolen")
		_ = unix.Rename(a.dir+"/stolen", a.spot+"/hooks")
		return err
	})
	add("exchange", func(a *arena, n int) error { return exchange(a.own+"/hooks", a.spot+"/hooks") })
	add("mkdir", func(a *arena, n int) error { return unix.Mkdir(a.spot+"/new"+label(n), 0o755) })
	add("mknod", func(a *arena, n int) error { return unix.Mknod(a.spot+"/fifo"+label(n), unix.S_IFIFO|0o600, 0) })
	add("symlink", func(a *arena, n int) error { return unix.Symlink("x", a.spot+"/sym"+label(n)) })
	add("bind", func(a *arena, n int) error { return bound(a.spot + "/s" + label(n)) })
	return all
}

// bound binds a new socket.
func bound(name string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Bind(fd, &unix.SockaddrUnix{Name: name})
}

func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	_ = errors.As(err, &errno)
	return errno
}
