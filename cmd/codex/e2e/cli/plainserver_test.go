package cli

import (
	"bytes"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
)

// plain are the extensions for copies, which Codex CLI's servers do not have.
var plain = []string{"fs/openArchive", "fs/setAttributes", "fs/readDirectory/attributes", "fs/remove/link", "process/list"}

// disguised returns the URL of a proxy for a server. The proxy hides some of the server's
// extensions.
func disguised(t *testing.T, url string, without ...string) string {
	// A server does not mask its frames, so the proxy can replace text in them. It keeps the lengths.
	var pairs []string
	for _, name := range without {
		pairs = append(pairs, `"`+name+`"`, `"`+strings.Repeat("-", len(name))+`"`)
	}
	names := strings.NewReplacer(pairs...)
	return between(t, url, nil, func(b []byte) []byte { return []byte(names.Replace(string(b))) })
}

// bothServers runs a test of copies with a server of this project, and with a server that has only
// Codex CLI's features.
func bothServers(t *testing.T, test func(t *testing.T, url string)) {
	_, url := harness.Server(t)
	t.Run("archives", func(t *testing.T) { test(t, url) })
	t.Run("requests", func(t *testing.T) { test(t, disguised(t, url, plain...)) })
}

// between returns the URL of a proxy for a server. up changes messages of clients, and down
// messages of the server. A nil function changes nothing.
func between(t *testing.T, url string, up, down func([]byte) []byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	harness.Must(t, err)
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", strings.TrimPrefix(url, "ws://"))
			if err != nil {
				_ = client.Close()
				continue
			}
			all.Go(func() { pass(server, client, up) })
			all.Go(func() { pass(client, server, down) })
		}
	})
	return "ws://" + l.Addr().String()
}

// pass copies data from one end to the other, and changes it.
func pass(to, from net.Conn, change func([]byte) []byte) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			passed := b[:n]
			if change != nil {
				passed = change(passed)
			}
			if _, err := to.Write(passed); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// TestServersWithoutAttributes: copies to and from servers such as Codex CLI's preserve the
// attributes that the protocol can express. A message names the lost ones.
func TestServersWithoutAttributes(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	url = disguised(t, url, plain...)
	dir := t.TempDir()
	harness.Must(t, os.MkdirAll(dir+"/w/empty", 0o755))
	harness.Must(t, os.MkdirAll(dir+"/w/sub", 0o755))
	harness.Must(t, os.WriteFile(dir+"/w/script", []byte("x"), 0o755))
	harness.Must(t, os.WriteFile(dir+"/w/sub/large", bytes.Repeat([]byte("x"), 3<<20), 0o644))
	harness.Must(t, os.Symlink("script", dir+"/w/link"))
	const warning = "codex: this server does not support permissions, times or links: copies are ordinary new files\n"
	for _, args := range [][]string{{"-rp", dir + "/w", ":" + dir + "/up"}, {"-rp", ":" + dir + "/w", dir + "/down"}} {
		_, errs, code := harness.Run(t, "", append([]string{"remote", "cp", "--url", url}, args...)...)
		if code != 1 || strings.Count(errs, warning) != 1 || !strings.Contains(errs, "/w/link: not copied: it is a symbolic link") ||
			!strings.HasSuffix(errs, "Error: 1 file was not copied, or not with all its attributes\n") {
			t.Errorf(`%q: got exit code %d, stderr %q; want exit code 1, strings.Count(errs, warning) 1, stderr with "/w/link: not copied: it is a symbolic link", stderr ending in %q`, args, code, errs, "Error: 1 file was not copied, or not with all its attributes\n")
		}
		target := strings.TrimPrefix(args[len(args)-1], ":")
		if got := contents(t, target); got != "empty/ script=x sub/ sub/large="+strings.Repeat("x", 3<<20) {
			t.Errorf("%q: got %.200s, want %.200s", args, got, "empty/ script=x sub/ sub/large="+strings.Repeat("x", 3<<20))
		}
		if st, err := os.Stat(target + "/script"); err != nil || st.Mode().Perm()&0o111 != 0 || time.Since(st.ModTime()) > time.Hour {
			t.Errorf("%q: got %v, %v; want a new file that nobody may execute", args, st, err)
		}
	}
	if out, errs, code := harness.Run(t, "", "remote", "ls", "-l", "--url", url, dir+"/w"); code != 0 ||
		!strings.Contains(out, "file@") || !strings.Contains(out, "dir") || strings.Count(out, "\n") != 4 {
		t.Errorf("got exit code %d, stdout %q, stderr %q; want exit code 0, stdout with \"file@\", stdout with \"dir\", strings.Count(out, \"\\n\") 4", code, out, errs)
	}
}

// TestListings: links to missing files are listed, and -l shows permissions and targets.
func TestListings(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	dir := t.TempDir()
	harness.Must(t, os.Mkdir(dir+"/d", 0o750))
	harness.Must(t, os.WriteFile(dir+"/f", []byte("abc"), 0o640))
	harness.Must(t, os.Symlink("nowhere", dir+"/dangling"))
	harness.Must(t, os.Symlink("d", dir+"/to-d"))
	if out, errs, code := harness.Run(t, "", "remote", "ls", "--url", url, dir); out != "d/\ndangling\nf\nto-d/\n" || code != 0 {
		t.Errorf("got exit code %d, stdout %q, stderr %q; want stdout %q, exit code 0", code, out, errs, "d/\ndangling\nf\nto-d/\n")
	}
	out, errs, code := harness.Run(t, "", "remote", "ls", "-la", "--url", url, dir)
	lines := strings.Split(out, "\n")
	if code != 0 || len(lines) != 5 {
		t.Fatalf("got exit code %d, stdout %q, stderr %q; want exit code 0, len(lines) 5", code, out, errs)
	}
	for i, want := range [][2]string{
		{"drwxr-x---", " d"}, {"lrwxrwxrwx", " dangling -> nowhere"}, {"-rw-r-----", " f"}, {"lrwxrwxrwx", " to-d -> d"},
	} {
		if line := strings.TrimSpace(lines[i]); !strings.HasPrefix(line, want[0]) || !strings.HasSuffix(line, want[1]) {
			t.Errorf("%q, want %q", line, want)
		}
	}
	harness.Must(t, os.Truncate(dir+"/f", 1536))
	for _, args := range [][]string{{"-lh", dir + "/f"}, {dir + "/f", "-l", "--human-readable"}, {"-l", "-h", dir + "/f"}} {
		out, errs, code := harness.Run(t, "", append([]string{"remote", "ls", "--url", url}, args...)...)
		if fields := strings.Fields(out); code != 0 || len(fields) != 5 || fields[1] != "1.5K" {
			t.Errorf("ls %q: got exit code %d, stdout %q, stderr %q; want the size 1.5K", args, code, out, errs)
		}
	}
	if out, errs, code := harness.Run(t, "", "remote", "ls", "--url", url, "-h", dir); out != "d/\ndangling\nf\nto-d/\n" || code != 0 {
		t.Errorf("ls -h: got exit code %d, stdout %q, stderr %q; want the names, exit code 0", code, out, errs)
	}
}
