//go:build linux || darwin

// Package fshelper is the language that the server and the file system helper
// codex-fs speak: the server's side of it. The helper itself is
// cmd/codex-fs/fshelper.
//
// # One request
//
// The helper is started, already confined, for one request. It reads one JSON
// document from stdin, which ends with the input or with a newline after the
// document, and answers with one line on stdout:
//
//	{"operation":"fs/readFile","params":{"path":"file:///srv/a"}}
//
//	{"status":"ok","payload":{"operation":"fs/readFile","response":{"dataBase64":"YQ=="}}}
//	{"status":"error","payload":{"code":-32004,"message":"No such file or directory (os error 2): /srv/a"}}
//
// Params and responses are those of the RPC; there is no sandbox, and what is
// not a path on this host is an error. The text before and after the response
// is always the same, down to the byte, so that it can be cut out: OKPrefix,
// OperationSuffix and OKSuffix. Then the helper exits with 0. When it does not
// understand the request it says so on stderr and exits with 1.
//
//	line := fshelper.AppendRequest(nil, "fs/readFile", params, home)
//	// write it to the helper, read its answer
//	response, rpcErr, err := fshelper.ParseAnswer(answer, "fs/readFile")
//
// The helper begins the answer to fs/readFile before it has read a large file
// whole. If reading then fails, the line breaks off and the helper exits
// with 1.
//
// # A handle
//
// fs/open keeps the helper alive: more requests follow, one a line, each
// answered by a line, and they need no handleId:
//
//	{"operation":"fs/open","params":{"handleId":"h","path":"file:///srv/a","mode":"replace","atomic":true}}
//	{"operation":"fs/writeBlock","params":{"offset":0,"chunk":"YWJj"}}
//	{"operation":"fs/readBlock","params":{"offset":0,"len":1048576}}
//	{"operation":"fs/close","params":{}}
//
// The helper ends after the answer to fs/close, after an error of the system
// (which is how an error ends a handle of the server's own), and when its
// input ends, which throws away what an atomic write has not finished. A
// helper that is killed instead leaves the temporary file behind, so the end
// of its input is the way to abandon it.
package fshelper
