package archive

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"codex.internal/pkg/host/dirfd"
)

// PackOptions select the parts of a tree that an archive contains.
type PackOptions struct {
	// Context ends a long Read; nil: Reads are not interrupted.
	Context context.Context
	// Exclude reports whether an entry below the source is left out, together with everything
	// below it; nil: no entry is left out.
	Exclude func(path string, isDirectory bool) bool
	// Paths are the entries of the source that the archive contains; nil: all. For a directory
	// among them, the archive does not contain its entries.
	Paths []string
	// After is the path of the last entry that the reader has received, so that an interrupted
	// copy continues after it; "": the archive begins at the beginning. The archive repeats
	// only the directories above After.
	After string
	// List makes the archive describe files without their contents. Sums adds a checksum of
	// each file's contents.
	List, Sums bool
	// Times adds the fractions of a second to modification times.
	Times bool
	// Began, if not nil, is called with each entry and its offset in the archive.
	Began func(e *Entry, offset int64)
	// Got, if not nil, is called with the number of content bytes of each read.
	Got func(n int)
}

// Packer reads a tree as an archive. It is for one goroutine at a time, and must be
// closed.
type Packer struct {
	o         PackOptions
	levels    []level // the directories that are being read
	names     int     // number of names held in all levels
	selection selection

	out     []byte // the next bytes of the archive
	used    int    // number of bytes of out that were read
	read    int64  // number of bytes of the archive that were read
	file    *dirfd.File
	current Entry    // the entry of file
	extents []Extent // further data ranges of the file
	left    int64    // bytes left in the first of them
	fill    int64    // number of zeros to write in place of data that the file has lost
	broken  error    // the reason; reported after the zeros
	content []byte   // buffer for small files
	ended   bool
}

// level is a directory that is being read.
type level struct {
	dir   *dirfd.Dir
	path  string   // relative to the source; "" for the source itself
	names []string // the names that follow
	after []string // the remaining names of After, while the walk is on that path
	total int      // number of names that it holds
}

// NewPacker returns a Packer of a directory, which it closes.
func NewPacker(source *dirfd.Dir, o PackOptions) *Packer {
	if o.Context == nil {
		o.Context = context.Background()
	}
	p := &Packer{o: o}
	p.begin(source)
	return p
}

// begin appends the entry for the source itself.
func (p *Packer) begin(source *dirfd.Dir) {
	after, _ := parts(p.o.After, dirfd.ValidName)
	var wrong []string
	p.selection, wrong = selectionOf(p.o.Paths)
	info, err := source.Stat()
	if err != nil {
		p.problem(".", err, false)
	} else if p.o.Paths == nil || p.selection.has("") {
		p.entry(Entry{Path: ".", Type: Directory}, info)
	}
	for _, path := range wrong {
		p.problem(path, errName, false)
	}
	p.push(source, "", after)
}

// push enters a directory: its entries come next.
func (p *Packer) push(d *dirfd.Dir, path string, after []string) {
	var names []string
	var err error
	if p.o.Paths != nil {
		names = p.selection.in(path)
	} else {
		names, err = d.Names(maxNames - p.names)
	}
	if err != nil {
		p.problem(shown(path), err, false)
	}
	p.names += len(names)
	p.levels = append(p.levels, level{d, path, names, after, len(names)})
}

func shown(path string) string {
	if path == "" {
		return "."
	}
	return path
}

// Read reads the next bytes of the archive. It fills b, except at the end, where it returns
// io.EOF.
func (p *Packer) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		switch {
		case p.used < len(p.out):
			got := copy(b[n:], p.out[p.used:])
			p.used += got
			p.read += int64(got)
			n += got
		case p.file != nil:
			got := p.contents(b[n:])
			p.read += int64(got)
			p.got(got)
			n += got
		case p.fill > 0:
			got := int(min(p.fill, int64(len(b)-n)))
			clear(b[n : n+got])
			p.fill -= int64(got)
			p.read += int64(got)
			n += got
		case p.ended && n > 0:
			return n, nil
		case p.ended:
			return 0, io.EOF
		default:
			if err := p.o.Context.Err(); err != nil {
				return n, err
			}
			p.out, p.used = p.out[:0], 0
			if p.broken != nil {
				p.problem(p.current.Path, p.broken, true)
				p.broken = nil
			} else {
				p.step()
			}
		}
	}
	return n, nil
}

func (p *Packer) got(n int) {
	if p.o.Got != nil {
		p.o.Got(n)
	}
}

// Close closes all open files. After the archive was read to its end, none is open.
func (p *Packer) Close() error {
	if p.file != nil {
		_ = p.file.Close()
		p.file = nil
	}
	for _, l := range p.levels {
		_ = l.dir.Close()
	}
	p.levels, p.ended = nil, true
	return nil
}

// step appends the entry for the next name.
func (p *Packer) step() {
	if len(p.levels) == 0 {
		p.out = append(append(p.out, zeros[:]...), zeros[:]...)
		p.ended = true
		return
	}
	l := &p.levels[len(p.levels)-1]
	if len(l.names) == 0 {
		_ = l.dir.Close()
		p.names -= l.total
		p.levels = p.levels[:len(p.levels)-1]
		return
	}
	name := l.names[0]
	l.names = l.names[1:]
	var after []string
	if len(l.after) > 0 {
		switch {
		case name < l.after[0]:
			return
		case name == l.after[0] && len(l.after) > 1:
			after = l.after[1:]
		case name == l.after[0]:
			after = []string{}
		}
	}
	path := name
	if l.path != "" {
		path = l.path + "/" + name
	}
	p.name(l.dir, name, path, after)
}

// name makes the entry of a name. after holds the remaining components of PackOptions.After below
// it: nil if the name is not on that path, empty if it is the path's end.
func (p *Packer) name(in *dirfd.Dir, name, path string, after []string) {
	info, err := in.Lstat(name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) || p.o.Paths != nil {
			p.problem(path, err, false)
		}
		return
	}
	if p.o.Exclude != nil && p.o.Exclude(path, info.Kind == dirfd.Directory) {
		return
	}
	if after != nil && info.Kind != dirfd.Directory {
		return
	}
	switch info.Kind {
	case dirfd.Directory:
		p.directory(in, name, path, info, after)
	case dirfd.Link:
		target, err := in.Readlink(name)
		if err != nil {
			p.problem(path, err, false)
			return
		}
		p.entry(Entry{Path: path, Type: Link, Target: target}, info)
	case dirfd.Regular:
		p.regular(in, name, path, info)
	default:
		p.problem(path, errSpecial, false)
	}
}

var errSpecial = errors.New("not copied: it is a device, a FIFO or a socket")

// directory appends the entry of a directory and enters it.
func (p *Packer) directory(in *dirfd.Dir, name, path string, info dirfd.Info, after []string) {
	within := p.o.Paths == nil || p.selection.below(path)
	if p.o.Paths == nil || p.selection.has(path) {
		p.entry(Entry{Path: path, Type: Directory}, info)
	}
	if !within {
		return
	}
	if len(p.levels) >= MaxDepth {
		p.problem(path, errDeep, false)
		return
	}
	d, err := in.Enter(name)
	if err != nil {
		p.problem(path, err, false)
		return
	}
	p.push(d, path, after)
}

// entry appends the header of an entry.
func (p *Packer) entry(e Entry, info dirfd.Info) {
	e.Perm, e.UID, e.GID, e.Modified = info.Perm, info.UID, info.GID, info.Modified
	if !p.o.Times {
		e.Modified = e.Modified.Truncate(1e9)
	}
	p.header(&e)
}

func (p *Packer) header(e *Entry) {
	if p.o.Began != nil {
		p.o.Began(e, p.read+int64(len(p.out)-p.used))
	}
	p.out = appendHeader(p.out, e)
}

// problem appends an entry that reports a file that the archive does not contain. With discard,
// the entry reports that the file before it is broken.
func (p *Packer) problem(path string, err error, discard bool) {
	p.header(&Entry{Path: path, Type: Problem, Text: err.Error(), Discard: discard})
}
