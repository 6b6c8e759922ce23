package archive

import (
	"encoding/hex"
	"errors"
	"io"

	"codex.internal/pkg/host/dirfd"
)

// regular appends the entry of a file, and starts to read its contents.
func (p *Packer) regular(in *dirfd.Dir, name, path string, info dirfd.Info) {
	if p.o.List && !p.o.Sums {
		p.entry(Entry{Path: path, Type: Listed, Size: info.Size}, info)
		return
	}
	f, info, err := in.Open(name)
	if err != nil {
		p.problem(path, err, false)
		return
	}
	if p.o.List {
		p.sum(f, path, info)
		return
	}
	e := Entry{Path: path, Type: File, Size: info.Size}
	if info.HasHoles && info.Size > smallFile {
		e.Extents = extentsOf(f, info.Size)
	}
	if e.Extents == nil && e.Size <= smallFile && p.small(f, &e, info) {
		return
	}
	p.entry(e, info)
	p.file, p.current, p.extents = f, e, e.Extents
	if p.extents == nil {
		p.extents = []Extent{{0, e.Size}}
	}
	p.nextExtent()
}

// small reads a small file before it appends the entry, so that the entry has the right size. It reports
// false, and appends nothing, if the file has grown too large for that.
func (p *Packer) small(f *dirfd.File, e *Entry, info dirfd.Info) bool {
	if p.content == nil {
		p.content = make([]byte, smallFile+1)
	}
	want := int(e.Size) + 1
	n, err := readFull(f, p.content[:want])
	if err == nil { // the file is longer now; files of /proc have size 0
		n2, err2 := readFull(f, p.content[want:])
		n, err = n+n2, err2
	}
	if err == nil {
		if f.SeekTo(0) == nil {
			if now, err := f.Stat(); err == nil {
				e.Size = max(now.Size, e.Size)
			}
		}
		return false
	}
	_ = f.Close()
	if !errors.Is(err, io.EOF) {
		p.problem(e.Path, err, false)
		return true
	}
	e.Size = int64(n)
	p.entry(*e, info)
	p.got(n)
	p.out = append(p.out, p.content[:n]...)
	p.out = append(p.out, zeros[:padding(e.Size)]...)
	return true
}

// readFull reads until b is full. If it cannot, it returns io.EOF or the read error.
func readFull(f *dirfd.File, b []byte) (int, error) {
	n := 0
	for n < len(b) {
		got, err := f.Read(b[n:])
		n += got
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// extentsOf returns the parts of a file with data; nil if no hole is large enough,
// or the file system does not report holes.
func extentsOf(f *dirfd.File, size int64) []Extent {
	list := []Extent{}
	for at := int64(0); at < size; {
		start, end, ok := f.NextData(at, size)
		if !ok || start < at || end < start {
			list = nil
			break
		}
		if len(list) == maxExtents-1 { // the rest of the file becomes one part
			end = size
		}
		if start < end {
			last := len(list) - 1
			if last >= 0 && start-(list[last].Offset+list[last].Length) < minHole {
				list[last].Length = end - list[last].Offset
			} else {
				list = append(list, Extent{start, end - start})
			}
		}
		at = end
	}
	if f.SeekTo(0) != nil || len(list) == 1 && list[0] == (Extent{0, size}) {
		return nil
	}
	return list
}

// contents reads contents of the current file into b.
func (p *Packer) contents(b []byte) int {
	if p.left == 0 {
		p.endFile()
		return 0
	}
	n, err := p.file.Read(b[:min(int64(len(b)), p.left)])
	p.left -= int64(n)
	if err == nil {
		return n
	}
	// The header already contains the size: missing bytes are replaced by zeros, and the
	// file is reported as broken.
	if errors.Is(err, io.EOF) {
		err = errors.New("the file became shorter while it was read")
	}
	p.breakOff(err)
	return n
}

// nextExtent starts with the next data range of the file, or ends the file.
func (p *Packer) nextExtent() {
	p.left = 0
	if len(p.extents) == 0 {
		p.endFile()
		return
	}
	next := p.extents[0]
	p.extents = p.extents[1:]
	p.left = next.Length
	if next.Offset == 0 || p.left == 0 {
		return
	}
	if err := p.file.SeekTo(next.Offset); err != nil {
		p.breakOff(err)
	}
}

// endFile ends a data range of the file. After the last data range it ends the file.
func (p *Packer) endFile() {
	if len(p.extents) > 0 {
		p.nextExtent()
		return
	}
	_ = p.file.Close()
	p.file = nil
	p.out = append(p.out, zeros[:padding(p.current.stored())]...)
}

// breakOff ends a file that cannot be read completely, and reports err.
func (p *Packer) breakOff(err error) {
	_ = p.file.Close()
	missing := p.left
	for _, x := range p.extents {
		missing += x.Length
	}
	p.file, p.extents, p.left = nil, nil, 0
	p.fill = missing + int64(padding(p.current.stored()))
	p.broken = err
}

// sum appends the entry of a file with the checksum of its contents.
func (p *Packer) sum(f *dirfd.File, path string, info dirfd.Info) {
	defer f.Close()
	if p.content == nil {
		p.content = make([]byte, smallFile+1)
	}
	h := newSum()
	for {
		n, err := f.Read(p.content)
		h.write(p.content[:n])
		if err == nil {
			err = p.o.Context.Err()
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			p.problem(path, err, false)
			return
		}
	}
	sum := h.sum()
	p.entry(Entry{Path: path, Type: Listed, Size: info.Size, Sum: hex.EncodeToString(sum[:])}, info)
}
