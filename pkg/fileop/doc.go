// Package fileop groups the file operations that clients ask for:
//
//	fsops       carries out an operation with package files, and maps its errors
//	archive     trees of files as streams
//	installed makes the answer about the plugins and skills of the server's user
//	skills      finds plugins and skills below directories
//	fshelper    the line protocol between the server and codex-fs, the helper
//	            that carries out one operation inside a sandbox
//	codexfs     the program codex-fs
//
// The packages know the params and the results of the methods (execproto) and
// use package host/files to do the work. They do not decide whether an operation
// runs in the server or in the helper: package execserver does.
//
// None of the types is API for other programs.
package fileop
