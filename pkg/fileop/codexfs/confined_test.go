package codexfs

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWritesRegularFilesOnly: confined requests do not write to FIFOs and devices, whose
// readers outside of the sandbox would take commands from inside. They also do not write to
// files below /proc, where the helper's own memory and answers are.
func TestWritesRegularFilesOnly(t *testing.T) {
	dir := tree(t)
	fifo, err := unix.Open(dir+"/p", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fifo)
	l, err := net.Listen("unix", dir+"/s")
	must(t, err)
	defer l.Close()
	regular, err := os.OpenFile(dir+"/d/f", os.O_RDWR, 0)
	must(t, err)
	defer regular.Close()
	var pipe [2]int
	must(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	must(t, os.Symlink("p", dir+"/to-fifo"))
	must(t, os.Symlink("/proc/self/mem", dir+"/to-mem"))
	must(t, os.Symlink("/proc/self/fd", dir+"/fd"))
	must(t, os.Symlink(fmt.Sprintf("/proc/self/fd/%d", pipe[1]), dir+"/stdout"))
	must(t, os.Symlink("loop", dir+"/loop"))
	const notFile, inProc = "is not a file", "leads into /proc, where sandboxed requests do not write"
	for name, want := range map[string]string{
		dir + "/p": notFile, dir + "/to-fifo": notFile, dir + "/s": notFile, "/dev/null": notFile, "/dev/full": notFile,
		"/proc/self/mem": inProc, "/proc/self/comm": inProc, "/proc/thread-self/attr/current": inProc, dir + "/to-mem": inProc,
		"/proc/self/oom_score_adj": inProc, fmt.Sprintf("/proc/%d/comm", os.Getpid()): inProc, "/proc/self/task/../comm": inProc,
		fmt.Sprintf("/proc/self/fd/%d", pipe[1]): inProc, fmt.Sprintf("%s/fd/%d", dir, pipe[1]): inProc, dir + "/stdout": inProc,
		fmt.Sprintf("/proc/self/fd/%d", regular.Fd()): inProc, "/proc/self/root" + dir + "/d/f": inProc, "/proc/self/exe": inProc,
		dir + "/loop": "Too many levels of symbolic links",
	} {
		before, err := os.ReadFile(dir + "/d/f")
		must(t, err)
		for _, request := range []string{
			`{"operation":"fs/writeFile","params":{"path":"` + name + `","dataBase64":"eHl6"}}`,
			`{"operation":"fs/open","params":{"handleId":"h","path":"` + name + `","mode":"replace"}}`,
			`{"operation":"fs/copy","params":{"sourcePath":"` + dir + `/d/odd%FF","destinationPath":"` + name + `","recursive":false}}`,
		} {
			request = strings.ReplaceAll(request, dir+"/d/odd%FF", "file://"+dir+"/d/odd%FF")
			stdout, stderr, code := run(request)
			if !strings.HasPrefix(stdout, `{"status":"error"`) || !strings.Contains(stdout, want) || code != ExitOK {
				t.Errorf("%s: %s%s exit %d, want %s", request, stdout, stderr, code, want)
			}
		}
		if after, err := os.ReadFile(dir + "/d/f"); err != nil || string(after) != string(before) {
			t.Errorf("%s: the file became %q, %v", name, after, err)
		}
	}
	// The FIFO must not even have been opened.
	poll := []unix.PollFd{{Fd: int32(fifo), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, 0); n != 0 || err != nil {
		t.Errorf("the FIFO was opened: events %#x, %v", poll[0].Revents, err)
	}
	if n, err := unix.Read(pipe[0], make([]byte, 1)); err != unix.EAGAIN {
		t.Errorf("the pipe got %d bytes, %v", n, err)
	}
	// The same for the copy of a tree.
	must(t, os.Mkdir(dir+"/from", 0o755))
	must(t, os.WriteFile(dir+"/from/p", []byte("x"), 0o644))
	must(t, os.Mkdir(dir+"/to", 0o755))
	must(t, unix.Mkfifo(dir+"/to/p", 0o644))
	request := `{"operation":"fs/copy","params":{"sourcePath":"` + dir + `/from","destinationPath":"` + dir + `/to","recursive":true}}`
	if stdout, _, _ := run(request); !strings.Contains(stdout, dir+"/to/p` is not a file") {
		t.Errorf("got %v, want a text with %q", stdout, dir+"/to/p` is not a file")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
