// Package fshelper is the server's side of the line protocol between the server
// and the file system helper codex-fs. The helper's side is
// package codexfs.
//
// # One request
//
// The helper is started in its sandbox for one request. It reads one JSON document from stdin,
// which ends at a newline after the document or at the end of the input. It answers with one
// line on stdout:
//
//	{"operation":"fs/readFile","home":"file:///root","params":{"path":"file:///srv/a"}}
//
//	{"status":"ok","payload":{"operation":"fs/readFile","response":{"dataBase64":"YQ=="}}}
//	{"status":"error","payload":{"code":-32004,"message":"No such file or directory (os error 2): /srv/a"}}
//
// Params and responses are those of the RPC. The helper ignores the sandbox in the params,
// because it already runs in that sandbox. home is the directory that replaces `~` at the
// beginning of a path; the member may be missing. A path that is not valid on this host is an
// error. The text before and after the response is always the same: OKPrefix, OperationSuffix
// and OKSuffix. Then the helper exits with 0. If the request is malformed, it writes an error
// to stderr and exits with 1.
//
//	pieces := fshelper.Request("fs/readFile", home, params)
//	// write them to the helper, read its answer
//	response, rpcErr, err := fshelper.ParseAnswer(answer, "fs/readFile")
//
// The helper begins the answer to fs/readFile before it has read all of a large
// file. If reading fails after that, the line ends early and the helper exits
// with 1.
//
// # A handle
//
// fs/open keeps the helper alive. More requests follow, one per line, and the helper answers
// each with a line. The requests need no handleId:
//
//	{"operation":"fs/open","params":{"handleId":"h","path":"file:///srv/a","mode":"replace","atomic":true}}
//	{"operation":"fs/writeBlock","params":{"offset":0,"chunk":"YWJj"}}
//	{"operation":"fs/readBlock","params":{"offset":0,"len":1048576}}
//	{"operation":"fs/close","params":{}}
//
// The helper exits after the answer to fs/close, after a system error (which closes a handle of
// the server too), and at the end of its input. The end of the input abandons an unfinished
// atomic write. A helper that is killed leaves the temporary file behind, so a server abandons
// a handle by closing the input.
//
// The rules are in docs/spec/sandbox.md §6.
package fshelper
