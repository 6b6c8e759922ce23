package campaign

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// errand is the task of a confined probe.
type errand struct {
	Seed  uint64
	Top   string   // the directory of the scenario
	Cwd   string   // the directory in which the probe starts
	Paths []string // all paths of the tree, absolute
	// Links maps links of the tree to their targets: they are other ways to reach a path.
	Links map[string]string
	// Churn makes the probe rename, exchange and link files until it is killed.
	Churn bool
	// Hold makes the probe wait for the end of its input when it is done.
	Hold bool
	TCP  int    // a TCP port outside
	Unix string // an abstract socket outside
}

// canary matches a text that only initial files contain. It has the scenario and the number of the node.
var canary = regexp.MustCompile(`CANARY-[0-9a-f]+-\d+;`)

const (
	ownPrefix = "n-" // prefix of the names that probes create
	churnTime = 20 * time.Second
	mostRead  = 4096
)

type probe struct {
	*rand.Rand
	errand
	said  map[string]bool
	works map[string]int // number of successful operations, by kind
	n     int
	topFD int
}

// runProbe is the main function of the confined probe. It prints what it could read: a line "read
// CANARY HOW" for each text, and "listed NAME HOW" for each name. Other effects are visible from
// outside.
func runProbe(file string) int {
	text, err := os.ReadFile(file)
	if err != nil {
		fmt.Println("broken", err)
		return 3
	}
	p := &probe{said: make(map[string]bool), works: make(map[string]int)}
	if err := json.Unmarshal(text, &p.errand); err != nil {
		fmt.Println("broken", err)
		return 3
	}
	p.Rand = rand.New(rand.NewPCG(p.Seed, 11))
	unix.Umask(0)
	p.topFD, _ = unix.Open(p.Top, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	fmt.Println("ready")
	if p.Churn {
		for end := time.Now().Add(churnTime); time.Now().Before(end); {
			p.churn()
		}
		return 0
	}
	p.descriptors()
	p.look()
	p.change()
	p.network()
	p.restructure()
	p.look()
	p.sweep(p.Top)
	stats, _ := json.Marshal(p.works)
	fmt.Printf("works %s\n", stats)
	if p.Hold {
		fmt.Println("held")
		_, _ = io.Copy(io.Discard, os.Stdin)
		p.look()
		p.change()
	}
	return 0
}

func (p *probe) say(word, what, how string) {
	if key := word + what; !p.said[key] {
		p.said[key] = true
		fmt.Println(word, what, how)
	}
}

// ok counts an attempt if it succeeded.
func (p *probe) ok(kind string, err error) bool {
	if err == nil {
		p.works[kind]++
	}
	return err == nil
}

func (p *probe) fresh() string {
	p.n++
	return ownPrefix + strconv.FormatUint(p.Uint64()%1e9, 36) + strconv.Itoa(p.n)
}

// spellings returns the path itself, and randomly chosen other spellings of it.
func (p *probe) spellings(at string) []string {
	dir, base := filepath.Dir(at), filepath.Base(at)
	rel := strings.TrimPrefix(at, p.Top+"/")
	all := []string{
		"/proc/self/root" + at, "/proc/1/root" + at, "/proc/thread-self/root" + at,
		dir + "/../" + filepath.Base(dir) + "/./" + base,
		fmt.Sprintf("/proc/self/fd/%d/%s", p.topFD, rel),
	}
	// If the probe's directory has been moved, a relative path may lead anywhere.
	here, err := os.Getwd()
	if r, err2 := filepath.Rel(p.Cwd, at); err == nil && err2 == nil && here == p.Cwd {
		all = append(all, "/proc/self/cwd/"+r, r)
	}
	for link, target := range p.Links {
		if within(at, target) {
			all = append(all, link+strings.TrimPrefix(at, target))
		}
	}
	slices.Sort(all)
	return []string{at, pick(p.Rand, all)}
}

func (p *probe) shuffled() []string {
	list := slices.Clone(p.Paths)
	p.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// take reads from an open descriptor, and closes it.
func (p *probe) take(fd int, how string) {
	defer unix.Close(fd)
	buf := make([]byte, mostRead)
	n, err := unix.Read(fd, buf)
	if err == unix.EISDIR {
		if n, err = unix.Getdents(fd, buf); err != nil {
			return
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			p.say("listed", name, how)
		}
		p.works["list"]++
		return
	}
	if err != nil {
		return
	}
	for _, c := range canary.FindAllString(string(buf[:n]), -1) {
		p.say("read", c, how)
		p.works["read"]++
	}
}

// look tries to read every path.
func (p *probe) look() {
	for _, at := range p.shuffled() {
		for _, s := range p.spellings(at) {
			p.readAt(s)
		}
	}
}

func (p *probe) readAt(s string) {
	if fd, err := unix.Open(s, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
		p.take(fd, s)
	}
}

// sweep reads all files that it finds by listing directories, whatever their present names are.
func (p *probe) sweep(top string) {
	_ = filepath.WalkDir(top, func(at string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			p.readAt(at)
		}
		return nil
	})
}

// descriptors uses inherited descriptors.
func (p *probe) descriptors() {
	buf := make([]byte, mostRead)
	for fd := 0; fd < 1200; fd++ {
		if fd == 1 || fd == 2 || fd == p.topFD {
			continue
		}
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFIFO || st.Mode&unix.S_IFMT == unix.S_IFSOCK || st.Mode&unix.S_IFMT == unix.S_IFCHR {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || fd > 2 && flags&unix.FD_CLOEXEC != 0 {
			continue // the descriptor is the probe's own
		}
		how := fmt.Sprintf("descriptor %d", fd)
		if n, err := unix.Pread(fd, buf, 0); err == nil {
			for _, c := range canary.FindAllString(string(buf[:n]), -1) {
				p.say("read", c, how)
			}
		}
		p.readAt(fmt.Sprintf("/proc/self/fd/%d", fd))
		for _, flags := range []int{unix.O_WRONLY, unix.O_WRONLY | unix.O_TRUNC, unix.O_RDWR | unix.O_APPEND} {
			if w, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
				_, _ = unix.Write(w, []byte("W!"))
				_ = unix.Close(w)
			}
		}
		_ = unix.Ftruncate(fd, 1)
		_ = unix.Fchmod(fd, 0o777)
		_ = unix.Fsetxattr(fd, "user.n", []byte("1"), 0)
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		_ = unix.Mkdirat(fd, p.fresh(), 0o777)
		for range 20 {
			at := pick(p.Rand, p.Paths)
			rel := strings.TrimPrefix(at, p.Top+"/")
			for _, name := range []string{filepath.Base(at), rel, "../" + rel, "../../" + rel, "../../../" + rel} {
				if f, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
					p.take(f, how+"/"+name)
				}
				if f, err := unix.Openat(fd, name, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
					_, _ = unix.Write(f, []byte("W!"))
					_ = unix.Close(f)
				}
			}
		}
	}
}

// change tries to change contents, attributes and directories.
func (p *probe) change() {
	for _, at := range p.shuffled() {
		for _, s := range p.spellings(at) {
			p.changeAt(s)
		}
	}
}

func (p *probe) changeAt(s string) {
	write := func(flags int) {
		fd, err := unix.Open(s, flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		_, err = unix.Write(fd, []byte("W!"))
		p.ok("write", err)
		_ = unix.Ftruncate(fd, 3)
		_ = unix.Close(fd)
	}
	switch p.IntN(5) {
	case 0:
		write(unix.O_WRONLY | unix.O_TRUNC)
	case 1:
		_ = unix.Truncate(s, 1)
		write(unix.O_RDWR)
	default:
		write(unix.O_WRONLY | unix.O_APPEND)
	}
	switch p.IntN(6) {
	case 0:
		p.ok("chmod", unix.Chmod(s, 0o777))
	case 1:
		_ = unix.Fchmodat(unix.AT_FDCWD, s, 0o770, unix.AT_SYMLINK_NOFOLLOW)
	case 2:
		_ = unix.Lchown(s, os.Getuid(), os.Getgid())
		_ = unix.Chown(s, 0, 0)
	case 3:
		_ = unix.Setxattr(s, "user.n", []byte("1"), 0)
	case 4:
		ts := []unix.Timespec{{Sec: 1}, {Sec: 1}}
		_ = unix.UtimesNanoAt(unix.AT_FDCWD, s, ts, unix.AT_SYMLINK_NOFOLLOW)
	case 5:
		_ = unix.Utimes(s, []unix.Timeval{{Sec: 2}, {Sec: 2}})
	}
	in := s + "/" + p.fresh()
	switch p.IntN(7) {
	case 0, 1:
		if fd, err := unix.Open(in, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o666); p.ok("create", err) {
			_ = unix.Close(fd)
		}
	case 2:
		p.ok("mkdir", unix.Mkdir(in, 0o777))
	case 3:
		_ = unix.Symlink(pick(p.Rand, p.Paths), in)
	case 4:
		_ = unix.Mkfifo(in, 0o666)
	case 5:
		if fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
			_ = unix.Bind(fd, &unix.SockaddrUnix{Name: in})
			_ = unix.Close(fd)
		}
	case 6:
		if fd, err := unix.Open(s, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o666); err == nil {
			_ = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, in, unix.AT_SYMLINK_FOLLOW)
			_ = unix.Close(fd)
		}
	}
	p.metadataIn(s)
}

// metadataIn tries to create or change files in a directory that tools trust.
func (p *probe) metadataIn(dir string) {
	at := dir + "/" + pick(p.Rand, metadata)
	switch p.IntN(6) {
	case 0:
		_ = unix.Mkdir(at, 0o777)
	case 1:
		if fd, err := unix.Open(at, unix.O_CREAT|unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o666); err == nil {
			_ = unix.Close(fd)
		}
	case 2:
		_ = unix.Symlink(pick(p.Rand, p.Paths), at)
	case 3:
		_ = unix.Rename(pick(p.Rand, p.Paths), at)
	case 4:
		_ = unix.Rename(at, dir+"/"+p.fresh())
	case 5:
		_ = unix.Link(pick(p.Rand, p.Paths), at)
	}
}

// ancestors returns the directories above a path, up to the scenario's.
func (p *probe) ancestors(at string) (list []string) {
	for dir := filepath.Dir(at); within(dir, p.Top) && dir != p.Top; dir = filepath.Dir(dir) {
		list = append(list, dir)
	}
	return list
}

// restructure moves every path and every directory above one, and puts links and directories in
// their place.
func (p *probe) restructure() {
	for _, at := range p.shuffled() {
		p.move(at, p.Top)
		for _, dir := range p.ancestors(at) {
			if p.IntN(3) == 0 {
				p.move(dir, p.Top)
			}
		}
		other := pick(p.Rand, p.Paths)
		switch p.IntN(8) {
		case 0, 1:
			p.ok("exchange", unix.Renameat2(unix.AT_FDCWD, pick(p.Rand, p.spellings(at)), unix.AT_FDCWD, other, unix.RENAME_EXCHANGE))
		case 2:
			p.ok("link", unix.Link(at, filepath.Dir(other)+"/"+p.fresh()))
		case 3:
			p.ok("unlink", unix.Unlink(pick(p.Rand, p.spellings(at))))
		case 4:
			p.ok("rmdir", unix.Rmdir(pick(p.Rand, p.spellings(at))))
		case 5:
			_ = unix.Rename(at, other)
		}
	}
}

// move renames a path, works on the files below it, creates another file in its
// place, and usually renames it back.
func (p *probe) move(at, _ string) {
	to := filepath.Dir(at) + "/" + p.fresh()
	if !p.ok("rename", unix.Rename(pick(p.Rand, p.spellings(at)), to)) {
		return
	}
	for _, below := range p.Paths {
		if within(below, at) && p.IntN(3) == 0 {
			moved := to + strings.TrimPrefix(below, at)
			p.readAt(moved)
			p.changeAt(moved)
		}
	}
	switch p.IntN(4) {
	case 0:
		_ = unix.Symlink(pick(p.Rand, p.Paths), at)
	case 1:
		_ = unix.Symlink(p.Top+"/v/r", at)
	case 2:
		_ = unix.Mkdir(at, 0o777)
	}
	if p.IntN(3) > 0 {
		_ = unix.Unlink(at)
		_ = unix.Rmdir(at)
		_ = unix.Rename(to, at)
	}
}

// churn changes one name after another until its time is over.
func (p *probe) churn() {
	at, other := pick(p.Rand, p.Paths), pick(p.Rand, p.Paths)
	switch p.IntN(10) {
	case 0, 1, 2:
		_ = unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
	case 3, 4:
		p.move(at, p.Top)
	case 5:
		for _, dir := range p.ancestors(at) {
			p.move(dir, p.Top)
		}
	case 6:
		_ = unix.Link(at, filepath.Dir(other)+"/"+p.fresh())
	case 7:
		p.metadataIn(at)
	case 8:
		p.readAt(pick(p.Rand, p.spellings(at)))
	case 9:
		_ = unix.Rename(at, other)
	}
}

// network tries to reach listeners outside.
func (p *probe) network() {
	addresses := [][2]string{{"tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.TCP))}, {"unix", "@" + p.Unix}}
	for _, at := range p.Paths {
		if strings.HasPrefix(filepath.Base(at), "s") {
			for _, s := range p.spellings(at) {
				addresses = append(addresses, [2]string{"unix", s})
			}
		}
	}
	for _, a := range addresses {
		c, err := net.DialTimeout(a[0], a[1], time.Second)
		if p.ok("connect", err) {
			_ = c.Close()
		}
	}
}
