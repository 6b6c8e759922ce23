package sandbox

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/host/watch"
	"golang.org/x/sys/unix"
)

// The attacks in this file use archives and watches. Each has a control that shows that the attack
// works without protection.

// exchanging exchanges two names again and again until stop is called, which restores them.
func exchanging(t *testing.T, a, b string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ctx.Err() == nil || n%2 == 1; n++ {
			_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// files returns the file system of a client of the server, with or without a sandbox.
func (c *confined) files(sandbox object) *execclient.FS {
	c.t.Helper()
	client, err := execclient.DialWebSocket(c.t.Context(), c.url, execclient.Options{})
	harness.Must(c.t, err)
	c.t.Cleanup(func() { _ = client.Close() })
	if sandbox == nil {
		return client.FS()
	}
	text, err := json.Marshal(sandbox)
	harness.Must(c.t, err)
	return client.FS().WithSandbox(text)
}

// most returns the peak memory of a process, in bytes.
func most(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	harness.Must(t, err)
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	harness.Must(t, err)
	return kib << 10
}

// TestAttackArchiveExchange: while an archive is extracted and read, a process exchanges a
// directory of the target with a link to the outside. No file outside is written or read.
func TestAttackArchiveExchange(t *testing.T) {
	t.Parallel()
	onBoth(t, func(c *confined) {
		outside := filepath.Join(c.dir, "private")
		harness.Must(t, os.Mkdir(outside, 0o755))
		harness.Must(t, os.WriteFile(outside+"/treasure", nil, 0o644))
		harness.Must(t, os.Mkdir(c.ws+"/d", 0o755))
		harness.Must(t, os.Symlink("../private", c.ws+"/l"))
		defer exchanging(t, c.ws+"/d", c.ws+"/l")()
		c.until("the control has left the target", func() bool {
			_ = os.WriteFile(c.ws+"/d/control", nil, 0o644)
			_, err := os.Lstat(outside + "/control")
			return err == nil
		})
		harness.Must(t, os.Remove(outside+"/control"))
		var headers []tar.Header
		for i := range 300 {
			headers = append(headers,
				tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755},
				tar.Header{Name: fmt.Sprintf("d/%d", i), Typeflag: tar.TypeReg, Mode: 0o644, Size: 3},
				tar.Header{Name: fmt.Sprintf("d/s%d", i), Typeflag: tar.TypeSymlink, Linkname: "x"})
		}
		text := archiveOf(t, headers)
		for _, sandbox := range []object{nil, c.usual()} {
			files := c.files(sandbox)
			for range 5 {
				if _, err := c.extract(files, c.ws, text); err != nil {
					t.Error(err)
				}
				if names := c.archived(files); strings.Contains(strings.Join(names, " "), "treasure") {
					t.Errorf("read outside: %q", names)
				}
			}
		}
		if got, err := os.ReadDir(outside); err != nil || len(got) != 1 {
			t.Errorf("outside there are %v, %v", got, err)
		}
	})
}

// huge returns an archive whose only header announces size bytes.
func huge(kind byte, size string) []byte {
	b := make([]byte, 512)
	copy(b, "huge")
	copy(b[100:], "0000644\x000000000\x000000000\x00")
	if len(size) < 12 {
		copy(b[124:], size)
	} else { // the base-256 encoding of tar
		n, _ := strconv.ParseUint(size, 10, 64)
		b[124] = 0x80
		for i := range 8 {
			b[135-i] = byte(n >> (8 * i))
		}
	}
	copy(b[136:], "00000000000\x00        ")
	b[156] = kind
	copy(b[257:], "ustar\x0000")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

// pax returns an archive of one file with an extended record.
func pax(key, value string) []byte {
	record := fmt.Sprintf(" %s=%s\n", key, value)
	n := len(record) + 1
	for len(strconv.Itoa(n))+len(record) != n {
		n = len(strconv.Itoa(n)) + len(record)
	}
	record = strconv.Itoa(n) + record
	b := append(huge('x', fmt.Sprintf("%011o", len(record))), record...)
	b = append(b, make([]byte, (512-len(b)%512)%512)...)
	b = append(b, huge('0', "00000000000")...)
	return append(b, make([]byte, 1024)...)
}

// TestAttackArchiveBombs sends archives that are large, or claim to be. The server's memory does
// not grow with their size, no file is left, and the server continues.
func TestAttackArchiveBombs(t *testing.T) {
	t.Parallel()
	c := confinedBy(t, harness.Codex)
	files := c.files(nil)
	target := c.dir + "/bombs"
	harness.Must(t, os.Mkdir(target, 0o755))
	extents := strings.Repeat("1:1,", 60_000)
	before := most(t, c.pid)
	for name, text := range map[string][]byte{
		"a file of 8 EiB":               huge('0', "9223372036854775807"),
		"more than 8 EiB":               huge('0', "18446744073709551615"),
		"an extended header of 8 EiB":   huge('x', "9223372036854775807"),
		"an extended header of 8 GiB":   huge('x', "77777777777"),
		"a global header of 8 GiB":      huge('g', "77777777777"),
		"a long name of 8 GiB":          huge('L', "77777777777"),
		"a size of 8 EiB":               pax("size", "9223372036854775807"),
		"a negative size":               pax("size", "-1"),
		"a hole of 8 EiB":               pax("CODEX.sparse", "9223372036854775807"),
		"ranges behind the end":         pax("CODEX.sparse", "3 9223372036854775806:9223372036854775806"),
		"ranges without an end":         pax("CODEX.sparse", extents),
		"a path of 200 KiB":             pax("path", strings.Repeat("d/", 100_000)+"f"),
		"a target of 200 KiB":           pax("linkpath", strings.Repeat("x", 200_000)),
		"a modification time of ever":   pax("mtime", strings.Repeat("9", 100_000)),
		"an owner that is out of range": pax("uid", "99999999999999999999"),
	} {
		if failed, err := c.extract(files, target, text); err == nil && len(failed) == 0 && name != "a hole of 8 EiB" {
			t.Errorf("%s was taken", name)
		}
	}
	if left, err := filepath.Glob(target + "/.*.tmp"); err != nil || left != nil {
		t.Errorf("left behind: %q, %v", left, err)
	}
	var disk unix.Stat_t
	if err := unix.Lstat(target+"/huge", &disk); err == nil && disk.Blocks > 64 {
		t.Errorf("%d blocks on disk", disk.Blocks)
	}
	// A million entries are refused, and reported in bounded memory.
	var refused, unnamed atomic.Uint64
	w, err := files.CreateArchive(t.Context(), target, execclient.ExtractOptions{
		Failed: func(string, string) { refused.Add(1) }, Unnamed: func(n uint64) { unnamed.Add(n) },
	})
	harness.Must(t, err)
	entries := 0
	for block := bytes.Repeat(huge('3', "00000000000"), 2048); entries < 1_000_000; entries += 2048 { // write headers of devices
		if _, err := w.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	_, err = w.Write(make([]byte, 1024))
	harness.Must(t, err)
	harness.Must(t, w.Close())
	if named := refused.Load(); named+unnamed.Load() != uint64(entries) || named == 0 {
		t.Errorf("%d of %d entries are named, %d counted", named, entries, unnamed.Load())
	}
	if grown := most(t, c.pid) - before; grown > 96<<20 {
		t.Errorf("the server's memory has grown by %d MiB", grown>>20)
	}
	if _, err := files.ReadFile(t.Context(), c.ws+"/f"); err != nil {
		t.Error(err)
	}
}

// TestAttackWatchExchange: a watched directory and one below it are exchanged with links to the
// outside, and files are created there. The watch does not report these files.
func TestAttackWatchExchange(t *testing.T) {
	t.Parallel()
	onBoth(t, func(c *confined) {
		outside := filepath.Join(c.dir, "private")
		for _, dir := range []string{outside, c.ws + "/top/d"} {
			harness.Must(t, os.MkdirAll(dir, 0o755))
		}
		harness.Must(t, os.Symlink(outside, c.ws+"/top/l"))
		harness.Must(t, os.Symlink(outside, c.ws+"/link"))
		sandbox := with(managed(special("minimal", "read"), at(c.ws, "read")), "cwd", uri(c.ws))
		for i, sandbox := range []object{nil, sandbox} {
			files := c.files(sandbox)
			w, err := files.Watch(t.Context(), c.ws+"/top", execclient.WatchOptions{Recursive: true})
			harness.Must(t, err)
			control := fmt.Sprintf("%s/top/d/control%d", c.ws, i)
			stop := exchanging(t, c.ws+"/top/d", c.ws+"/top/l")
			for n := range 500 {
				harness.Must(t, os.WriteFile(fmt.Sprintf("%s/treasure%d", outside, n), nil, 0o644))
			}
			stop()
			harness.Must(t, os.WriteFile(control, nil, 0o644)) // the watch reports this file, so it works
			for told := false; !told; {
				n, err := w.Next(t.Context())
				harness.Must(t, err)
				for _, e := range n.Events {
					told = told || e.Path == control
					if strings.Contains(e.Path, "treasure") {
						t.Fatalf("told %+v", e)
					}
				}
				if n.Overflow { // the change may be among the lost ones
					harness.Must(t, os.WriteFile(control, []byte("again"), 0o644))
				}
			}
			// Exchange the watched directory itself. After that, the watch reports nothing.
			harness.Must(t, unix.Renameat2(unix.AT_FDCWD, c.ws+"/top", unix.AT_FDCWD, c.ws+"/link", unix.RENAME_EXCHANGE))
			harness.Must(t, os.WriteFile(outside+"/treasure", []byte("x"), 0o644))
			for err == nil {
				var n execclient.Changes
				n, err = w.Next(t.Context())
				for _, e := range n.Events {
					if strings.Contains(e.Path, "treasure") {
						t.Fatalf("told %+v", e)
					}
				}
			}
			if ended := new(execclient.WatchEndedError); !errors.As(err, &ended) {
				t.Errorf("the watch ended with %v", err)
			}
			harness.Must(t, unix.Renameat2(unix.AT_FDCWD, c.ws+"/top", unix.AT_FDCWD, c.ws+"/link", unix.RENAME_EXCHANGE))
		}
	})
}

// TestAttackWatchQueue: a client does not read the notifications of its watch during a flood of
// changes. The server's memory stays bounded, it serves other clients, and it reports to the client
// that changes were lost.
func TestAttackWatchQueue(t *testing.T) {
	t.Parallel()
	c := confinedBy(t, harness.Codex)
	// A long path makes each event large.
	deep := filepath.Join(c.ws, strings.Repeat("x", 200), strings.Repeat("y", 200), strings.Repeat("z", 200))
	harness.Must(t, os.MkdirAll(deep, 0o755))
	c.call("fs/watch", object{"watchId": 1, "path": uri(c.ws), "recursive": true})
	before := most(t, c.pid)
	for range 4 {
		for i := range 5000 {
			name := fmt.Sprintf("%s/%d", deep, i)
			harness.Must(t, os.WriteFile(name, nil, 0o644))
			harness.Must(t, os.Remove(name))
		}
	}
	if _, err := c.files(nil).ReadFile(t.Context(), c.ws+"/f"); err != nil {
		t.Error(err)
	}
	if grown := most(t, c.pid) - before; grown > 64<<20 {
		t.Errorf("the server's memory has grown by %d MiB", grown>>20)
	}
	for lost := false; !lost; {
		var n struct{ Overflow bool }
		harness.Must(t, json.Unmarshal(c.wait(func(m message) bool { return m.Method == "fs/changed" }).Params, &n))
		lost = n.Overflow
	}
}

// TestAttackWatchExhaustion: a request under a sandbox uses as many watches as it can. The server
// refuses it with an error that names the limit, and other requests of the same user can still
// watch.
func TestAttackWatchExhaustion(t *testing.T) {
	harness.NeedSandbox(t)
	c := confinedBy(t, harness.Codex)
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_watches")
	harness.Must(t, err)
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	harness.Must(t, err)
	folders := min(limit/4, watch.MaxTreeDirectories) + 100
	for i := range folders {
		harness.Must(t, os.MkdirAll(fmt.Sprintf("%s/%d/%d", c.ws, i%100, i), 0o755))
	}
	m := c.answer(c.send("fs/watch", object{"watchId": 1, "path": uri(c.ws), "recursive": true, "sandbox": c.usual()}))
	if m.Error == nil || !strings.Contains(m.Error.Message, "fs.inotify.max_user_watches") && !strings.Contains(m.Error.Message, "a watch takes at most") {
		t.Errorf("%d directories are watched: %+v", folders, m.Error)
	}
	// A refused request has released its watches.
	c.refuse("fs/watch", object{"watchId": 1, "path": uri(c.ws), "recursive": true, "sandbox": c.usual()}, -32600, "watch")
	c.call("fs/watch", object{"watchId": 1, "path": uri(c.ws + "/1"), "recursive": true, "sandbox": c.usual()})
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	harness.Must(t, err)
	defer unix.Close(fd)
	for i := range 100 {
		if _, err := unix.InotifyAddWatch(fd, fmt.Sprintf("%s/%d", c.ws, i), unix.IN_CREATE); err != nil {
			t.Fatalf("another program gets no watch: %v", err)
		}
	}
	w, err := c.files(nil).Watch(t.Context(), c.ws+"/2", execclient.WatchOptions{Recursive: true})
	if err != nil {
		t.Fatalf("a client without a sandbox gets no watch: %v", err)
	}
	_ = w.Close()
}
