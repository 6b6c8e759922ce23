package codexfs

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"codex.internal/pkg/fileop/fshelper"
	"codex.internal/pkg/host/files"
	"codex.internal/pkg/testutil"
	"codex.internal/pkg/wire/pathuri"
	"golang.org/x/sys/unix"
)

// run calls Main with streams in memory.
func run(request string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = Main(strings.NewReader(request), &out, &errs)
	return out.String(), errs.String(), code
}

func ok(operation, response string) string {
	return string(fshelper.AppendOK(nil, operation)) + response + fshelper.OKSuffix + "\n"
}

// tree makes the files for the tests.
func tree(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Mkdir(dir+"/d", 0o755),
		os.WriteFile(dir+"/d/f", []byte("abc"), 0o644),
		os.Symlink("d/f", dir+"/l"),
		os.WriteFile(dir+"/d/odd\xff", nil, 0o644),
		unix.Mkfifo(dir+"/p", 0o644),
		os.Mkdir(dir+"/pipes", 0o755),
		unix.Mkfifo(dir+"/pipes/q", 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOperations(t *testing.T) {
	for _, tt := range []struct{ name, operation, params, want string }{
		{"read", "fs/readFile", `{"path":"U/d/f"}`, `{"dataBase64":"YWJj"}`},
		{"read a native path", "fs/readFile", `{"path":"D/d/../d/f","sandbox":null}`, `{"dataBase64":"YWJj"}`},
		{"read a link", "fs/readFile", `{"path":"U/l"}`, `{"dataBase64":"YWJj"}`},
		{"read no link", "fs/readFile", `{"path":"U/l","followSymlinks":false}`, `-32600 path contains a symbolic link`},
		{"read a directory", "fs/readFile", `{"path":"U/d"}`, "-32600 path `D/d` is not a file"},
		{"read a pipe", "fs/readFile", `{"path":"U/p"}`, "-32600 path `D/p` is not a file"},
		{"read nothing", "fs/readFile", `{"path":"U/no"}`, "-32004 No such file or directory (os error 2): D/no"},
		{"read below a file", "fs/readFile", `{"path":"U/d/f/x"}`, "-32603 Not a directory (os error 20): D/d/f/x"},
		{"read elsewhere", "fs/readFile", `{"path":"file://host/a"}`, "-32600 'file://host/a' is invalid on 'linux'"},
		{"read a relative path", "fs/readFile", `{"path":"a"}`, "-32602 path is not absolute: a"},
		{"read a home", "fs/readFile", `{"path":"~/a"}`, "-32602 path is not absolute: ~/a (the server has no home directory)"},
		{"read under a sandbox", "fs/readFile", `{"path":"U/d/f","sandbox":{"permissions":{}}}`, `{"dataBase64":"YWJj"}`},
		{"write", "fs/writeFile", `{"path":"U/new","dataBase64":"eHl6"}`, `{}`},
		{
			"write bad base64", "fs/writeFile", `{"path":"U/new","dataBase64":"***"}`,
			"-32600 fs/writeFile requires valid base64 dataBase64: Invalid symbol 42, offset 0.",
		},
		{"write a directory", "fs/writeFile", `{"path":"U/d","dataBase64":""}`, "-32603 Is a directory (os error 21): D/d"},
		{"make", "fs/createDirectory", `{"path":"U/a/b/c"}`, `{}`},
		{"make one", "fs/createDirectory", `{"path":"U/a/b/c","recursive":false}`, "-32004 No such file or directory (os error 2): D/a/b/c"},
		{"make again", "fs/createDirectory", `{"path":"U/d","recursive":false}`, "-32603 File exists (os error 17): D/d"},
		{"stat nothing", "fs/getMetadata", `{"path":"U/no"}`, "-32004 No such file or directory (os error 2): D/no"},
		{"canonicalize", "fs/canonicalize", `{"path":"U/l"}`, `{"path":"U/d/f"}`},
		{
			"list", "fs/readDirectory", `{"path":"U/d"}`,
			`{"entries":[{"fileName":"f","isDirectory":false,"isFile":true},{"fileName":"odd` + "\uFFFD" + `","isDirectory":false,"isFile":true,"isLossy":true}]}`,
		},
		{
			"list without attributes", "fs/readDirectory", `{"path":"U/d","attributes":false}`,
			`{"entries":[{"fileName":"f","isDirectory":false,"isFile":true},{"fileName":"odd` + "\uFFFD" + `","isDirectory":false,"isFile":true,"isLossy":true}]}`,
		},
		{"list nothing", "fs/readDirectory", `{"path":"U/no"}`, "-32004 No such file or directory (os error 2): D/no"},
		{"remove", "fs/remove", `{"path":"U/d"}`, `{}`},
		{"remove nothing", "fs/remove", `{"path":"U/no"}`, `{}`},
		{"remove nothing without force", "fs/remove", `{"path":"U/no","force":false}`, "-32004 No such file or directory (os error 2): D/no"},
		{"remove a full directory", "fs/remove", `{"path":"U/d","recursive":false}`, "-32603 Directory not empty (os error 39): D/d"},
		{"remove the root", "fs/remove", `{"path":"file:///"}`, "-32600 the root directory cannot be changed"},
		{"copy", "fs/copy", `{"sourcePath":"U/d","destinationPath":"U/e","recursive":true}`, `{}`},
		{
			"copy a directory with a pipe", "fs/copy", `{"sourcePath":"U/pipes","destinationPath":"U/e","recursive":true}`,
			`{"leftOut":{"count":1,"paths":["U/pipes/q"]}}`,
		},
		{
			"copy a pipe", "fs/copy", `{"sourcePath":"U/p","destinationPath":"U/e","recursive":true}`,
			"-32600 fs/copy only supports regular files, directories, and symlinks",
		},
		{
			"copy without recursive", "fs/copy", `{"sourcePath":"U/d","destinationPath":"U/e","recursive":false}`,
			"-32600 fs/copy requires recursive: true when sourcePath is a directory",
		},
		{"copy to nowhere", "fs/copy", `{"sourcePath":"U/d","destinationPath":"e","recursive":false}`, "-32602 path is not absolute: e"},
		{"rename to what exists", "fs/rename", `{"sourcePath":"U/l","destinationPath":"U/d/f"}`, "-32603 File exists (os error 17): D/d/f"},
		{"rename nothing", "fs/rename", `{"sourcePath":"U/no","destinationPath":"U/e"}`, "-32004 No such file or directory (os error 2): D/no"},
		{"rename to nowhere", "fs/rename", `{"sourcePath":"U/d","destinationPath":"U/no/e"}`,
			"-32004 No such file or directory (os error 2): D/no/e"},
		{"rename to a relative path", "fs/rename", `{"sourcePath":"U/d","destinationPath":"e"}`, "-32602 path is not absolute: e"},
		{"rename the root", "fs/rename", `{"sourcePath":"/","destinationPath":"U/e"}`, "-32600 the root directory cannot be changed"},
		{"attributes of nothing", "fs/getAttributes", `{"path":"U/no"}`, "-32004 No such file or directory (os error 2): D/no"},
		{"attributes of names in a file", "fs/listAttributes", `{"path":"U/d/f"}`, "-32603 Not a directory (os error 20): D/d/f"},
		{"set attributes", "fs/setAttributes", `{"path":"U/d/f","permissions":448,"modifiedAtMs":1}`, `{}`},
		{"set attributes of a link", "fs/setAttributes", `{"path":"U/l","permissions":448}`,
			"-32600 path `D/l` is a symbolic link, whose attributes cannot be set"},
		{"set attributes of a pipe", "fs/setAttributes", `{"path":"U/p","permissions":448}`, "-32600 path `D/p` is not a file or directory"},
		{"set a set-id bit", "fs/setAttributes", `{"path":"U/d/f","permissions":2541}`, "-32600 " + files.ErrPermissions.Error()},
		{"make a link", "fs/symlink", `{"path":"U/new","target":"/nowhere","overwrite":true}`, `{}`},
		{"make a link again", "fs/symlink", `{"path":"U/l","target":"x"}`, "-32603 File exists (os error 17): D/l"},
		{"replace a link", "fs/symlink", `{"path":"U/l","target":"x","overwrite":true}`, `{}`},
		{"replace a file by a link", "fs/symlink", `{"path":"U/d/f","target":"x","overwrite":true}`, "-32603 File exists (os error 17): D/d/f"},
		{"make a link to nothing", "fs/symlink", `{"path":"U/new","target":""}`, "-32004 No such file or directory (os error 2): D/new"},
		{"write in one step", "fs/writeFile", `{"path":"U/new","dataBase64":"eHl6","atomic":true,"permissions":384}`, `{}`},
		{"write with permissions only", "fs/writeFile", `{"path":"U/new","dataBase64":"","permissions":384}`,
			"-32600 fs/writeFile accepts permissions only together with atomic: true"},
		{"write a set-id file", "fs/writeFile", `{"path":"U/new","dataBase64":"","atomic":true,"permissions":2541}`, "-32600 " + files.ErrPermissions.Error()},
		{"write in place of a pipe", "fs/writeFile", `{"path":"U/p","dataBase64":"","atomic":true}`, "-32600 path `D/p` is not a file"},
		{"make a set-id directory", "fs/createDirectory", `{"path":"U/new","permissions":2541}`, "-32600 " + files.ErrPermissions.Error()},
		{"walk", "fs/walk", `{"path":"U/d","options":{"maxDepth":1,"maxDirectories":1,"maxEntries":9,"followDirectorySymlinks":false}}`,
			`{"entries":[{"path":"U/d/f","kind":"file"},{"path":"U/d/odd%FF","kind":"file"}],"errors":[],"truncated":false}`},
		{"walk without limits", "fs/walk", `{"path":"U/d","options":{"maxDepth":1,"maxDirectories":0,"maxEntries":9,"followDirectorySymlinks":false}}`,
			`-32600 filesystem walk limits must be greater than zero`},
		{"open nothing", "fs/open", `{"handleId":"h","path":"U/no"}`, "-32004 No such file or directory (os error 2): D/no"},
		{"open a pipe", "fs/open", `{"handleId":"h","path":"U/p"}`, "-32600 path `D/p` is not a file"},
		{"open with a long id", "fs/open", `{"handleId":"` + strings.Repeat("h", 33) + `","path":"U/d/f"}`, "-32600 file read handle ID must not exceed 32 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := tree(t)
			fill := strings.NewReplacer("U/", pathuri.Format(dir)+"/", "D/", dir+"/").Replace
			for _, end := range []string{"", "\n", "\nwhat follows is not read"} {
				stdout, stderr, code := run(`{"operation":"` + tt.operation + `","params":` + fill(tt.params) + "}" + end)
				want := ok(tt.operation, fill(tt.want))
				if rest, isError := strings.CutPrefix(tt.want, "-32"); isError {
					errCode, text, _ := strings.Cut(rest, " ")
					want = `{"status":"error","payload":{"code":-32` + errCode + `,"message":"` + fill(text) + `"}}` + "\n"
				}
				if stdout != want || stderr != "" || code != ExitOK {
					t.Errorf("%s%s exit %d; want %s", stdout, stderr, code, want)
				}
				if tt.operation != "fs/readFile" && !strings.HasPrefix(tt.want, "-") {
					if _, rpcErr, err := fshelper.ParseAnswer([]byte(stdout), tt.operation); rpcErr != nil || err != nil {
						t.Errorf("the server would say %v, %v", rpcErr, err)
					}
				}
			}
		})
	}
}

func TestOperationsDoWhatTheySay(t *testing.T) {
	dir := tree(t)
	for _, request := range []string{
		`{"operation":"fs/writeFile","params":{"path":"` + dir + `/l","dataBase64":"eHl6"}}`,
		`{"operation":"fs/copy","params":{"sourcePath":"` + dir + `/d","destinationPath":"` + dir + `/e","recursive":true}}`,
		`{"operation":"fs/remove","params":{"path":"` + dir + `/d"}}`,
		`{"operation":"fs/writeFile","params":{"path":"` + dir + `/new","dataBase64":"eHl6"}}`,
		`{"operation":"fs/rename","params":{"sourcePath":"` + dir + `/new","destinationPath":"` + dir + `/e/f","overwrite":true}}`,
		`{"operation":"fs/rename","params":{"sourcePath":"` + dir + `/e","destinationPath":"` + dir + `/renamed"}}`,
	} {
		if _, stderr, code := run(request); code != ExitOK {
			t.Fatal(stderr)
		}
	}
	if data, err := os.ReadFile(dir + "/renamed/f"); err != nil || string(data) != "xyz" {
		t.Errorf(`got data %q, error %v; want no error, data "xyz"`, data, err)
	}
	if _, err := os.Stat(dir + "/d"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	stdout, _, _ := run(`{"operation":"fs/getMetadata","params":{"path":"` + dir + `/renamed/f"}}`)
	if !strings.Contains(stdout, `"isDirectory":false,"isFile":true,"isSymlink":false,"size":3,`) {
		t.Errorf("got %v, want a text with %q", stdout, `"isDirectory":false,"isFile":true,"isSymlink":false,"size":3,`)
	}
}

// TestHome reads a file below the home directory of the request.
func TestHome(t *testing.T) {
	dir := tree(t)
	for _, request := range []string{
		`{"operation":"fs/readFile","home":"` + pathuri.Format(dir) + `","params":{"path":"~/d/f"}}`,
		`{"operation":"fs/readFile","params":{"path":"\u007e/d/f"},"home":"` + dir + `"}`,
	} {
		if stdout, stderr, _ := run(request); stdout != ok("fs/readFile", `{"dataBase64":"YWJj"}`) {
			t.Errorf("%s: got stdout %s, stderr %s; want stdout ok(\"fs/readFile\", `{\"dataBase64\":\"YWJj\"}`)", request, stdout, stderr)
		}
	}
	lines := `{"operation":"fs/open","home":"` + dir + `","params":{"handleId":"h","path":"~/d/f"}}` + "\n" + closeLine
	want := ok("fs/open", `{"handleId":"h"}`) + ok("fs/close", `{}`)
	if stdout, stderr, _ := run(lines); stdout != want {
		t.Errorf("got stdout %s, stderr %s; want stdout %s", stdout, stderr, want)
	}
}

func TestPermissionDenied(t *testing.T) {
	dir := tree(t)
	if err := os.Chmod(dir+"/d/f", 0); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		// Root may read all files, so this thread gives up its privileges for the test.
		const nobody = 65534
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0); errno != 0 {
			t.Fatal(errno)
		}
		defer func() { _, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, 0, 0, 0) }()
	}
	stdout, _, _ := run(`{"operation":"fs/readFile","params":{"path":"` + dir + `/d/f"}}`)
	if want := `{"status":"error","payload":{"code":-32600,"message":"Permission denied (os error 13): ` + dir + `/d/f"}}` + "\n"; stdout != want {
		t.Errorf("%s, want %s", stdout, want)
	}
}

func TestMalformedRequests(t *testing.T) {
	for request, want := range map[string]string{
		"":                            "no request on stdin",
		" \n\n ":                      "no request on stdin",
		"hello\n":                     "expected value at offset 0",
		`{"operation":"fs/readFile"`:  "EOF while parsing a value",
		`{"operation":"fs/readFile"}`: "missing field `params`",
		`{"params":{}}`:               "missing field `operation`",
		`{"operation":"fs/readFile","params":{}}`:                                               "missing field `path`",
		`{"operation":"fs/readFile","params":[]}`:                                               "expected an object",
		`{"operation":"fs/readFile","params":null}`:                                             "expected an object",
		`{"operation":"fs/readFile","home":"a","params":{"path":"/a"}}`:                         "path is not absolute: a",
		`{"operation":"fs/readFile","home":"/a","home":"/a","params":{"path":"/a"}}`:            "duplicate field `home`",
		`{"operation":"fs/readFile","home":null,"params":{"path":"/a"}}`:                        "expected a string",
		`{"operation":"fs/open","params":{"handleId":"","path":"/a","mode":"x"}}`:               "unknown variant `x`",
		`{"operation":"fs/readBlock","params":{"offset":0,"len":1}}`:                            "unknown operation `fs/readBlock`",
		`{"operation":"process/start","params":{}}`:                                             "unknown operation `process/start`",
		`{"operation":"fs/copy","operation":"fs/copy","params":{}}`:                             "duplicate field `operation`",
		`{"operation":"fs/copy","params":{}} {}`:                                                "trailing characters",
		`{"operation":"fs/copy","params":{}}}` + "\n":                                           "trailing characters",
		`{"operation":"` + strings.Repeat("x", 1000) + `","params":{}}`:                         "unknown operation `" + strings.Repeat("x", 64) + "`",
		`{"operation":"fs/writeFile","params":{"path":"/nowhere/f","dataBase64":"` + "\xff\"}}": "invalid unicode",
	} {
		stdout, stderr, code := run(request)
		if stdout != "" || code != ExitFailed || !strings.HasPrefix(stderr, "fs sandbox helper failed: ") ||
			!strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 || len(stderr) > 300 {
			t.Errorf("%.100s: %q, %q, exit %d; want %s", request, stdout, stderr, code, want)
		}
	}
	var errs bytes.Buffer
	if code := Main(iotest.ErrReader(unix.EIO), io.Discard, &errs); code != ExitFailed || !strings.Contains(errs.String(), "input/output error") {
		t.Error(errs.String())
	}
}

// brokenWriter fails after some bytes.
type brokenWriter int

func (w *brokenWriter) Write(b []byte) (int, error) {
	if *w -= brokenWriter(len(b)); *w < 0 {
		return 0, unix.EPIPE
	}
	return len(b), nil
}

func TestAnswerThatNobodyReads(t *testing.T) {
	dir := tree(t)
	for _, request := range []string{
		`{"operation":"fs/canonicalize","params":{"path":"` + dir + `"}}`,
		`{"operation":"fs/canonicalize","params":{"path":"` + dir + `/no"}}`,
		`{"operation":"fs/readFile","params":{"path":"` + dir + `/d/f"}}`,
		`{"operation":"fs/open","params":{"handleId":"","path":"` + dir + `/x","mode":"replace","atomic":true}}`,
	} {
		var errs bytes.Buffer
		if code := Main(strings.NewReader(request), new(brokenWriter), &errs); code != ExitFailed || !strings.Contains(errs.String(), "broken pipe") {
			t.Errorf("%s: exit %d, %s", request, code, &errs)
		}
	}
	if names, err := filepath.Glob(dir + "/.*.tmp"); err != nil || names != nil {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

// TestSizes reads and writes files whose sizes are near limits of the implementation.
func TestSizes(t *testing.T) {
	sizes := []int{0, 1, 2, 3, 4}
	const readToTheEnd = 256 << 10
	for _, edge := range []int{readToTheEnd, encodeChunk, 2 * encodeChunk, fileChunk, 2 * fileChunk, firstBuffer, 3 << 20} {
		sizes = append(sizes, edge-1, edge, edge+1)
	}
	dir := t.TempDir()
	rng := rand.NewChaCha8([32]byte{1})
	for _, size := range sizes {
		data := make([]byte, size)
		_, _ = rng.Read(data)
		text := base64.StdEncoding.EncodeToString(data)
		stdout, stderr, _ := run(`{"operation":"fs/writeFile","params":{"path":"` + dir + `/f","dataBase64":"` + text + `"}}`)
		if stdout != ok("fs/writeFile", "{}") {
			t.Fatalf(`%d: got stdout %.200s, stderr %s; want stdout ok("fs/writeFile", "{}")`, size, stdout, stderr)
		}
		stdout, stderr, _ = run(`{"operation":"fs/readFile","params":{"path":"` + dir + `/f"}}`)
		if stdout != ok("fs/readFile", `{"dataBase64":"`+text+`"}`) {
			t.Fatalf("%d: %.200s… of %d bytes, %s", size, stdout, len(stdout), stderr)
		}
		if _, _, err := fshelper.ParseAnswer([]byte(stdout), "fs/readFile"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFilesThatTheKernelMakesUp(t *testing.T) {
	stdout, stderr, _ := run(`{"operation":"fs/readFile","params":{"path":"/proc/version"}}`)
	text, found := strings.CutPrefix(strings.TrimSuffix(stdout, `"}}}`+"\n"), string(fshelper.AppendOK(nil, "fs/readFile"))+`{"dataBase64":"`)
	data, err := base64.StdEncoding.DecodeString(text)
	if !found || err != nil || !bytes.Contains(data, []byte("Linux version")) {
		t.Errorf("got data %q, error %v, stderr %s; want found true, no error", data, err, stderr)
	}
	for _, name := range []string{"mem", "environ", "maps"} {
		for _, request := range []string{
			`{"operation":"fs/readFile","params":{"path":"/proc/self/` + name + `"}}`, `{"operation":"fs/open","params":{"handleId":"h","path":"/proc/self/` + name + `"}}`,
		} {
			stdout, _, _ = run(request)
			if want := `{"status":"error","payload":{"code":-32600,"message":"path ` + "`/proc/self/" + name + "`" + ` leads to a process in /proc`; !strings.HasPrefix(stdout, want) {
				t.Errorf("%s: got %s, want %s", request, stdout, want)
			}
		}
	}
}

func TestFileTooLarge(t *testing.T) {
	name := t.TempDir() + "/f"
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	err := os.Truncate(name, files.MaxReadFile+1)
	testutil.Need(t, "file system for files of 512 MiB", err, unix.EFBIG, unix.ENOSPC, unix.EDQUOT)
	stdout, _, _ := run(`{"operation":"fs/readFile","params":{"path":"` + name + `"}}`)
	if want := `{"status":"error","payload":{"code":-32600,"message":"file is too large to read: limit is 536870912 bytes"}}` + "\n"; stdout != want {
		t.Errorf("got %v, want %v", stdout, want)
	}
}

func TestRequestsInPieces(t *testing.T) {
	dir := tree(t)
	request := "\n{\n\"operation\": \"fs/readFile\", \"params\": {\n \"path\": \"" + dir + "/d/\\u0066\", \"x\": \"\\\\\\\"}\\n\"\n}\n}\n"
	var out, errs bytes.Buffer
	if code := Main(iotest.OneByteReader(strings.NewReader(request)), &out, &errs); code != ExitOK || out.String() != ok("fs/readFile", `{"dataBase64":"YWJj"}`) {
		t.Errorf("got out %s, errs %s; want code %v, out ok(\"fs/readFile\", `{\"dataBase64\":\"YWJj\"}`)", &out, &errs, ExitOK)
	}
}

func TestRequestTooLong(t *testing.T) {
	const limit = firstBuffer
	for size, want := range map[int]bool{limit: true, limit + 1: false} {
		in := newInput(strings.NewReader(strings.Repeat("1", size)))
		in.limit = limit
		doc, err := in.next()
		if (err == nil) != want || want && len(doc) != size {
			t.Errorf("%d bytes: %d, %v", size, len(doc), err)
		}
	}
}

// FuzzRequest splits input into documents, whole and byte by byte, and decodes them. It may
// split only at newlines outside of documents, and must not lose a byte.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"operation":"fs/readFile","params":{"path":"file:///a"}}`,
		"{\"operation\":\"fs/open\",\"params\":{}}\n{\"operation\":\"fs/readBlock\",\"params\":{\"offset\":0,\"len\":1}}\n",
		"\n\n{\n\"a\":\"\\\"\n", "}{\n", "\"\\", "1\n2", `{"params":{"offset":1,"chunk":"YQ=="},"operation":"x"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		whole := cut(t, newInput(bytes.NewReader(text)))
		pieces := cut(t, newInput(iotest.OneByteReader(bytes.NewReader(text))))
		if !slices.EqualFunc(whole, pieces, bytes.Equal) {
			t.Fatalf("%q is cut into %q or %q", text, whole, pieces)
		}
		joined := bytes.Join(whole, []byte{'\n'})
		if got := bytes.TrimRight(text, " \t\r\n"); !bytes.HasPrefix(joined, got) || len(joined) > len(text) {
			t.Fatalf("%q became %q", text, joined)
		}
		for _, doc := range whole {
			rq, err := decodeRequest(doc)
			if err == nil && !bytes.Contains(doc, rq.params) {
				t.Fatalf("%q has params %q of %q", doc, rq.params, rq.operation)
			}
			for _, second := range []string{"len", "chunk"} {
				if err == nil {
					_, _ = decodeBlock(bytes.Clone(rq.params), second)
				}
			}
		}
	})
}

func cut(t *testing.T, in *input) (docs [][]byte) {
	for {
		doc, err := in.next()
		if err == io.EOF {
			return docs
		}
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, bytes.Clone(doc))
	}
}
