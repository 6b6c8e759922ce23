package campaign

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// outside is the unconfined process that changes the tree meanwhile. It never moves a protected
// file to an unprotected place, because the result would not be a fault of the sandbox. It
// exchanges a directory with a link that leads elsewhere, and mounts and unmounts file systems on
// directories.
type outside struct {
	w    *world
	stop chan struct{}
	wg   sync.WaitGroup
	// failed counts mounts that could not be made.
	failed atomic.Int64
	// disturbed means that a command has moved or removed an exchanged name: one of the two names
	// was missing, or led to a third file.
	disturbed atomic.Bool
	mu        sync.Mutex
	written   map[string]string // changes in a mounted file system, by directory
}

func (w *world) startOutside() *outside {
	o := &outside{w: w, stop: make(chan struct{}), written: make(map[string]string)}
	if w.swaps() {
		fd, err := unix.Open(w.at(w.Swap), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			panic(err)
		}
		o.wg.Go(func() { o.swap(fd) })
	}
	if os.Geteuid() == 0 {
		for _, dir := range w.Mounts {
			o.wg.Go(func() { o.mount(dir) })
		}
	}
	return o
}

// end stops the work and waits until it has ended.
func (o *outside) end() {
	close(o.stop)
	o.wg.Wait()
	// Leave the names as they were, unless a process inside has moved them.
	if sw, sl := o.w.at(o.w.Swap+"/sw"), o.w.at(o.w.Swap+"/sl"); o.w.Swap != "" && o.w.before[o.w.Swap+"/sl"].ino == inode(sw) {
		_ = unix.Renameat2(unix.AT_FDCWD, sw, unix.AT_FDCWD, sl, unix.RENAME_EXCHANGE)
	}
}

// swap exchanges the two names until it is stopped. Below fd, where no mount hides them, it checks
// whether a command changes the two names.
func (o *outside) swap(fd int) {
	defer unix.Close(fd)
	in := "/proc/self/fd/" + strconv.Itoa(fd) + "/"
	sw, sl := o.w.at(o.w.Swap+"/sw"), o.w.at(o.w.Swap+"/sl")
	dir, link := o.w.before[o.w.Swap+"/sw"].ino, o.w.before[o.w.Swap+"/sl"].ino
	for {
		_ = unix.Renameat2(unix.AT_FDCWD, sw, unix.AT_FDCWD, sl, unix.RENAME_EXCHANGE)
		if a, b := inode(in+"sw"), inode(in+"sl"); !(a == dir && b == link || a == link && b == dir) {
			o.disturbed.Store(true)
		}
		select {
		case <-o.stop:
			return
		default:
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 50_000}, nil)
	}
}

func inode(p string) uint64 {
	var st unix.Stat_t
	_ = unix.Lstat(p, &st)
	return st.Ino
}

// mount mounts a file system on a directory again and again. The policy for the
// path applies to it.
func (o *outside) mount(dir string) {
	on, err := unix.Open(o.w.at(dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(on)
	for {
		if err := o.mountOnce(dir, on); err != nil {
			o.failed.Add(1)
		}
		select {
		case <-o.stop:
			return
		default:
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 1_000_000}, nil)
	}
}

func (o *outside) mountOnce(dir string, on int) error {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fs)
	if err := unix.FsconfigSetString(fs, "mode", "755"); err != nil {
		return err
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return err
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	if err := unix.MoveMount(mount, "", on, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return err
	}
	top := "/proc/self/fd/" + strconv.Itoa(mount)
	file := top + "/" + mountedName
	_ = os.WriteFile(file, []byte(mountedText), 0o666)
	_ = os.Chown(top, o.w.UID, o.w.UID)
	_ = os.Chown(file, o.w.UID, o.w.UID)
	unix.Nanosleep(&unix.Timespec{Nsec: 3_000_000}, nil)
	text, err := os.ReadFile(file)
	list, _ := os.ReadDir(top)
	if err := unix.Unmount(top, unix.MNT_DETACH); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil || string(text) != mountedText {
		o.written[dir] = "the file in it was changed"
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), ownPrefix) {
			o.written[dir] = e.Name() + " was made in it"
		}
	}
	return nil
}

// mountedName is the name of the file in each mounted file system, and mountedText is its content.
const mountedName, mountedText = "mounted", "mounted"

// judge reports changes in mounted file systems at paths that must not be written.
func (o *outside) judge(canWrite func(rel string) bool, oracles []*oracle) (found []breach) {
	// If mounts are shared, later mounts appear in the view of bwrap. Below a writable root,
	// Landlock is no second wall for these mounts, even for read-only paths (docs/security.md).
	// Scenario: t may be written, and root mounts a file system on t/.codex while the command runs
	// (seed 700060).
	arrives := func(dir string) bool {
		return o.w.Shared && (o.w.Backend == "bwrap" || o.w.Inside == "bwrap") && slices.ContainsFunc(oracles, func(or *oracle) bool {
			return slices.ContainsFunc(or.rules, func(r rule) bool { return r.access == write && within(filepath.Join(o.w.top, dir), r.path) })
		})
	}
	for _, dir := range sortedKeys(o.written) {
		if !canWrite(dir) && !arrives(dir) {
			found = append(found, breach{"mount", "on " + dir + " was mounted a file system: " + o.written[dir]})
		}
	}
	return found
}
