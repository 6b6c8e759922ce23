package runner

import (
	"encoding/binary"
	"io"
)

// elfHeader is the beginning of a program of a 64-bit machine, up to what interpreter needs.
// elf.Header64 is the same, but package debug/elf has tables, and those of what reads debugging
// information, made at each start of the program.
type elfHeader struct {
	Magic       [4]byte
	Class       uint8
	_           [27]byte
	Segments    uint64 // where their table is
	_           [14]byte
	SegmentSize uint16 // of an entry in the table
	Count       uint16
}

const (
	elfMagic       = "\x7fELF"
	elfClass64     = 2 // of elfHeader.Class
	elfInterpreter = 3 // how an entry of the table begins that names one
)

// interpreter reports whether a program of a 64-bit machine names one that loads its
// libraries; known says that it is such a program.
func interpreter(program io.ReaderAt) (named, known bool) {
	read := func(at uint64, into any) bool {
		return binary.Read(io.NewSectionReader(program, int64(at), int64(binary.Size(into))), binary.LittleEndian, into) == nil
	}
	var header elfHeader
	if !read(0, &header) || string(header.Magic[:]) != elfMagic || header.Class != elfClass64 {
		return false, false
	}
	for i := range uint64(header.Count) {
		var kind uint32
		if !read(header.Segments+i*uint64(header.SegmentSize), &kind) {
			return false, false
		}
		if kind == elfInterpreter {
			return true, true
		}
	}
	return false, true
}
