// Package outputlog keeps the numbered output of one process in files of a directory, as
// much of it as a limit allows, so that it can be read while the process runs and after
// its end, by this program or the next one.
//
//	log, err := outputlog.Create(dir, outputlog.Options{Bytes: 64 << 20, WhenFull: outputlog.DropOldest})
//	err = log.Append(ctx, 1, process.Stdout, []byte("hello\n"))
//	r, err := log.Read(0, 1<<20) // the chunks after number 0
//
// The directory has segments, which only grow, and the file status. A segment begins with an 8-byte mark
// and holds records, each of at most MaxChunk bytes with its number and a checksum. Bytes after the
// first invalid record of a segment count as not written: a killed writer leaves an incomplete record at
// the end of a segment. A segment is named after the number of its first record. Whole segments are
// dropped, the oldest first; a reader gets the missing numbers as a Range.
//
// The directory is held by a descriptor, and files are opened below it without following
// links, so that a process that can rename the directory cannot redirect writes. The files
// are parsed as untrusted bytes.
//
// The rules are in docs/spec/wire.md §4.10.
package outputlog
