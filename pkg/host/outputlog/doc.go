// Package outputlog stores the numbered output of one process in files of a directory, up to a
// limit. This program or the next one can read the output while the process runs and after its end.
//
//	log, err := outputlog.Create(dir, outputlog.Options{Bytes: 64 << 20, WhenFull: outputlog.DropOldest})
//	err = log.Append(ctx, 1, process.Stdout, []byte("hello\n"))
//	r, err := log.Read(0, 1<<20) // the chunks after number 0
//
// The directory has segments, which only grow, and the file status. A segment begins with an 8-byte
// mark and contains records. Each record has at most MaxChunk bytes, a number and a checksum. Bytes
// after the first invalid record of a segment are ignored: if the writer is killed, the last record
// of a segment is incomplete. The name of a segment is the number of its first record. If space is
// needed, whole segments are removed, the oldest first; a reader gets the missing numbers as a
// Range.
//
// The package holds a descriptor of the directory, and opens files below it without following
// links. So a process that can rename the directory cannot redirect writes. The files are parsed as
// untrusted input.
//
// The rules are in docs/spec/wire.md §4.10.
package outputlog
