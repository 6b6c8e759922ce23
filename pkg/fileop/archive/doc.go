// Package archive streams a tree of files as a tar archive, in both directions, without a goroutine
// and in bounded memory (docs/spec/wire.md §5.14). A Packer is read: each read continues the walk
// through the tree. An Unpacker is written to, in pieces of any size, and creates the files.
//
//	p := archive.NewPacker(source, archive.PackOptions{Times: true})
//	u := archive.NewUnpacker(target, archive.UnpackOptions{Preserve: true, Failed: report})
//	_, err := io.Copy(u, p)
//	if err == nil {
//		err = u.Close()
//	}
//
// # Format
//
// The format is POSIX pax: ustar headers, preceded by an extended header if values do not fit.
// Entries are files, directories and links. The first one is the source itself, named "."; a
// directory comes before its entries, and names are sorted by their bytes in each directory.
// Extensions of this package have records whose names begin with CODEX, and types of their own.
// tar can list such an archive, and an Unpacker accepts any archive of package archive/tar with
// these kinds of entries.
//
// The package does not use archive/tar itself, for two reasons. archive/tar needs package os/user,
// with which a build with cgo is not static, and the file helper must run in sandboxes without a C
// library. And archive/tar reads its input, whereas an Unpacker is written to. The tests compare
// both.
//
// # Hostile archives and trees
//
// An Unpacker writes only below its target: it enters one directory after the other by
// descriptor and follows no link. It refuses names with "..", absolute names, and entries of
// other types. It replaces only regular files and links. It reports each refused entry, and
// continues with the next one. A file is written under a temporary name and gets its own name
// when it is complete. An existing file that can be written but not replaced is overwritten in place. A Packer opens only files that it has checked to be regular. It reports
// files that it cannot read within the archive, and continues.
package archive
