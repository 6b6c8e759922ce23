package codexfs

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/pkg/fileop/fshelper"
)

const closeLine = `{"operation":"fs/close","params":{}}` + "\n"

func openLine(path, more string) string {
	return `{"operation":"fs/open","params":{"handleId":"h","path":"` + path + `"` + more + "}}\n"
}

const atomicReplace = `,"mode":"replace","atomic":true`

func errorLine(code, text string) string {
	return `{"status":"error","payload":{"code":` + code + `,"message":"` + text + `"}}` + "\n"
}

func TestReadHandle(t *testing.T) {
	dir := tree(t)
	opened := ok("fs/open", `{"handleId":"h"}`)
	block := func(offset, n uint64) string { return string(fshelper.AppendReadBlock(nil, offset, n)) }
	long := "file read block length must be between 1 and 1048576"
	for _, tt := range []struct{ name, lines, want string }{
		{"blocks", block(0, 2) + block(2, 1) + block(2, 2) + block(9, 1) + closeLine,
			ok("fs/readBlock", `{"chunk":"YWI=","eof":false}`) + ok("fs/readBlock", `{"chunk":"Yw==","eof":false}`) +
				ok("fs/readBlock", `{"chunk":"Yw==","eof":true}`) + ok("fs/readBlock", `{"chunk":"","eof":true}`) + ok("fs/close", `{}`)},
		{"the server's own params", `{"operation":"fs/readBlock","params":{"handleId":"h","offset":0,"len":3}}` + "\n" +
			`{"operation":"fs/close","params":{"handleId":"h"}}`,
			ok("fs/readBlock", `{"chunk":"YWJj","eof":false}`) + ok("fs/close", `{}`)},
		{"a refused length does not end it", block(0, 0) + block(0, 1<<20+1) + block(0, 1<<20),
			errorLine("-32600", long) + errorLine("-32600", long) + ok("fs/readBlock", `{"chunk":"YWJj","eof":true}`)},
		{"an error of the system does", block(1<<63, 1) + block(0, 1), errorLine("-32600", "Invalid argument (os error 22): "+dir+"/d/f")},
		{"writing", string(fshelper.AppendWriteBlock(nil, 0, []byte("x"))) + closeLine,
			errorLine("-32600", "file handle `h` is open for reading") + ok("fs/close", `{}`)},
		{"the end of the input", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr, code := run(openLine(dir+"/d/f", "") + tt.lines)
			if stdout != opened+tt.want || stderr != "" || code != ExitOK {
				t.Errorf("%s%s exit %d; want %s", stdout, stderr, code, opened+tt.want)
			}
		})
	}
}

func TestMalformedLinesEndAHandle(t *testing.T) {
	dir := tree(t)
	for line, want := range map[string]string{
		`{"operation":"fs/readFile","params":{"path":"/a"}}`:              "unknown operation `fs/readFile`",
		`{"operation":"fs/readBlock","params":{"len":1}}`:                 "missing field `offset`",
		`{"operation":"fs/readBlock","params":{"offset":1}}`:              "missing field `len`",
		`{"operation":"fs/readBlock","params":{"offset":-1}}`:             "expected u64",
		`{"operation":"fs/writeBlock","params":{"offset":1}}`:             "missing field `chunk`",
		`{"operation":"fs/writeBlock","params":{"offset":1,"chunk":"*"}}`: "Invalid symbol",
		`{"operation":"fs/close"`:                                         "expected `,` or",
	} {
		stdout, stderr, code := run(openLine(dir+"/new", atomicReplace) + line + "\n" + closeLine)
		if stdout != ok("fs/open", `{"handleId":"h"}`) || code != ExitFailed || !strings.Contains(stderr, want) {
			t.Errorf("%s: %s%s exit %d", line, stdout, stderr, code)
		}
	}
	if names, err := filepath.Glob(dir + "/[.n]*"); err != nil || names != nil {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

func TestWriteHandle(t *testing.T) {
	abc := string(fshelper.AppendWriteBlock(nil, 2, []byte("abc")))
	for _, tt := range []struct{ name, more, lines, want string }{
		{"replace", `,"mode":"replace"`, abc + closeLine, "\x00\x00abc"},
		{"replace at once", `,"mode":"replace"`, abc, "\x00\x00abc"},
		{"atomic", atomicReplace, abc + closeLine, "\x00\x00abc"},
		{"atomic, given up", atomicReplace, abc, "abc"},
		{"atomic, nothing written", atomicReplace, closeLine, ""},
		{"an empty chunk is refused", atomicReplace, string(fshelper.AppendWriteBlock(nil, 0, nil)) + abc + closeLine, "\x00\x00abc"},
		{"a long chunk is refused", atomicReplace, string(fshelper.AppendWriteBlock(nil, 0, make([]byte, 1<<20+1))) + abc + closeLine, "\x00\x00abc"},
		{"reading is refused", atomicReplace, string(fshelper.AppendReadBlock(nil, 0, 1)) + abc + closeLine, "\x00\x00abc"},
		{"an offset too far ends it", atomicReplace, string(fshelper.AppendWriteBlock(nil, 1<<63, []byte("x"))) + abc + closeLine, "abc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := tree(t)
			stdout, stderr, code := run(openLine(dir+"/l", tt.more) + tt.lines)
			data, err := os.ReadFile(dir + "/d/f")
			if err != nil || string(data) != tt.want || stderr != "" || code != ExitOK {
				t.Errorf("%q, %v after %s%s exit %d", data, err, stdout, stderr, code)
			}
			for _, name := range []string{"/.*.tmp", "/d/.*.tmp"} {
				if names, _ := filepath.Glob(dir + name); names != nil {
					t.Errorf("left behind: %v", names)
				}
			}
		})
	}
}

func TestLargeBlocks(t *testing.T) {
	name := t.TempDir() + "/f"
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	lines := []byte(openLine(name, atomicReplace))
	for i := range uint64(3) {
		lines = fshelper.AppendWriteBlock(lines, i<<20, data)
	}
	if stdout, stderr, _ := run(string(lines) + closeLine); strings.Count(stdout, `"status":"ok"`) != 5 {
		t.Fatal(stdout, stderr)
	}
	stdout, _, _ := run(openLine(name, "") + string(fshelper.AppendReadBlock(nil, 1<<20, 1<<20)) + string(fshelper.AppendReadBlock(nil, 3<<20-1, 1<<20)))
	lineOf := strings.Split(stdout, "\n")
	if len(lineOf) != 4 {
		t.Fatalf("%d lines", len(lineOf))
	}
	for i, n := range []int{1398104, 4} {
		response, rpcErr, err := fshelper.ParseAnswer([]byte(lineOf[i+1]), "fs/readBlock")
		if want := len(`{"chunk":"","eof":`) + n; rpcErr != nil || err != nil || len(response) < want {
			t.Errorf("got response %.100s, rpcErr %v, error %v; want rpcErr nil, no error, len(response) at least %v", response, rpcErr, err, want)
		}
	}
}
