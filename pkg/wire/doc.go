// Package wire groups the packages that clients and servers of all protocols use:
//
//	b64         base64 text
//	jsonrpc     reads and writes JSON-RPC messages
//	jsonwire    reads and writes JSON objects by lists of their members
//	digest      stands for secret ids in logs
//	logtext     short text for errors and logs
//	pathuri     file URIs and the native paths that they stand for
//	pattern     regular expressions that are compiled at their first use
//	secret      a credential that does not print, and types to embed where one is
//	tunnel      byte streams in messages, with windows
//	websocket   websockets and stdio, listeners and limits of connections
//
// The packages encode and decode messages. They do not know the meaning of a
// method, and use no resources of the machine except connections. They import no
// other group of this module, so that servers, clients and the relay can import
// them.
//
// None of the types is API for other programs, which use execclient and
// execserver.
package wire
