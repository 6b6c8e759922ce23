package archive

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"time"
)

// sink receives the entries that a parser has read.
type sink interface {
	// begin starts an entry. The previous entry has ended.
	begin(e *Entry)
	// skip reports that an entry of an unknown type was left out.
	skip(path string, kind byte)
	// data passes on a part of the contents of the current entry.
	data(b []byte)
	// end is called at the end of the archive.
	end()
}

// After one of these errors, the archive cannot be read further.
var (
	errChecksum = errors.New("malformed archive: the checksum of a header is wrong")
	errMagic    = errors.New("malformed archive: a header is not one of ustar")
	errExtended = errors.New("malformed archive: an extended header is malformed or too long")
	errSize     = errors.New("malformed archive: the size of an entry is wrong")
	errEnd      = errors.New("malformed archive: the end is malformed")
	errShort    = errors.New("the archive ends before its end")
	errEntries  = errors.New("the archive has more than " + strconv.Itoa(MaxEntries) + " entries")
)

// parser splits a stream into the entries of an archive. The stream is written to it.
type parser struct {
	to sink

	header   [block]byte
	have     int // number of bytes in header
	extended []byte
	inside   bool // an extended header
	taken    bool // the sink gets the entry's data
	left     int64
	pad      int
	zeroed   int // number of received zero blocks
	records  *records
	entries  int
	err      error
}

// records has the values of an extended header.
type records struct {
	path, target, holes, sum, text string
	size                           int64 // -1: no record
	uid, gid                       int64
	modified                       time.Time
	timed, discard                 bool
}

// write handles the next bytes. After an error, all further calls return that error.
func (p *parser) write(b []byte) error {
	for len(b) > 0 && p.err == nil {
		switch {
		case p.left > 0:
			n := int(min(int64(len(b)), p.left))
			p.contents(b[:n])
			p.left -= int64(n)
			b = b[n:]
			if p.left == 0 && p.inside && p.pad == 0 {
				p.err = p.endExtended()
			}
		case p.pad > 0:
			n := min(len(b), p.pad)
			p.pad -= n
			b = b[n:]
			if p.pad == 0 && p.inside {
				p.err = p.endExtended()
			}
		default:
			n := copy(p.header[p.have:], b)
			p.have += n
			b = b[n:]
			if p.have == block {
				p.have = 0
				p.err = p.entry()
			}
		}
	}
	return p.err
}

// close returns an error if the archive has not ended.
func (p *parser) close() error {
	if p.err == nil && p.zeroed < 2 {
		p.err = errShort
	}
	return p.err
}

func (p *parser) contents(b []byte) {
	switch {
	case p.inside:
		p.extended = append(p.extended, b...)
	case p.taken:
		p.to.data(b)
	}
}

// entry handles a complete header.
func (p *parser) entry() error {
	h := p.header[:]
	if bytes.Equal(h, zeros[:]) {
		if p.zeroed++; p.zeroed == 2 && p.records == nil {
			p.to.end()
		}
		if p.records != nil {
			return errEnd
		}
		return nil
	}
	if p.zeroed > 0 {
		return errEnd
	}
	sum, err := parseOctal(fieldSum.of(h))
	if err != nil || sum != checksum(h) {
		return errChecksum
	}
	if string(fieldMagic.of(h)) != magic {
		return errMagic
	}
	size, err := parseOctal(fieldSize.of(h))
	if err != nil {
		return errSize
	}
	kind := h[fieldType.at]
	if kind == typeExtended {
		if p.records != nil || size > maxExtended {
			return errExtended
		}
		p.inside, p.left, p.pad, p.extended = true, size, padding(size), p.extended[:0]
		if size == 0 {
			return p.endExtended()
		}
		return nil
	}
	if p.entries++; p.entries > MaxEntries {
		return errEntries
	}
	r := p.records
	p.records = nil
	return p.begin(h, kind, size, r)
}

// begin starts the entry of a header and its records. The records may be nil.
func (p *parser) begin(h []byte, kind byte, size int64, r *records) error {
	if r == nil {
		r = &records{size: -1, uid: -1, gid: -1}
	}
	if r.size >= 0 {
		size = r.size
	}
	e, err := entryOf(h, r)
	if err != nil {
		return err
	}
	p.taken = false
	switch kind {
	case 0, byte(File):
		e.Type, e.Size = File, size
		if r.holes != "" {
			err = parseExtents(e, r.holes, size)
		}
		p.left, p.taken = size, true
	case byte(Listed):
		e.Type, e.Size = Listed, size
	case byte(Link), byte(Directory), byte(Problem):
		e.Type = Type(kind)
		e.Path = strings.TrimSuffix(e.Path, "/")
		if size != 0 {
			err = errSize
		}
	default:
		p.left, p.pad = size, padding(size)
		p.to.skip(e.Path, kind)
		return nil
	}
	if err != nil {
		return err
	}
	p.pad = padding(p.left)
	p.to.begin(e)
	return nil
}

// entryOf returns the entry of a header and its records, without its type and its size.
func entryOf(h []byte, r *records) (*Entry, error) {
	e := &Entry{Path: r.path, Target: r.target, Modified: r.modified, Sum: r.sum, Text: r.text, Discard: r.discard}
	if e.Path == "" {
		e.Path = cString(fieldName.of(h))
		if prefix := cString(fieldPrefix.of(h)); prefix != "" {
			e.Path = prefix + "/" + e.Path
		}
	}
	if e.Target == "" {
		e.Target = cString(fieldTarget.of(h))
	}
	mode, err := parseOctal(fieldMode.of(h))
	if err != nil {
		return nil, err
	}
	e.Perm = uint32(mode & 0o777)
	for _, owner := range []struct {
		to     *uint32
		record int64
		in     field
	}{{&e.UID, r.uid, fieldUID}, {&e.GID, r.gid, fieldGID}} {
		id := owner.record
		if id < 0 {
			if id, err = parseOctal(owner.in.of(h)); err != nil {
				return nil, err
			}
		}
		*owner.to = uint32(id)
	}
	if !r.timed {
		seconds, err := parseOctal(fieldTime.of(h))
		if err != nil {
			return nil, err
		}
		e.Modified = time.Unix(seconds, 0)
	}
	return e, nil
}

// endExtended reads the records of a complete extended header.
func (p *parser) endExtended() error {
	p.inside = false
	p.records = &records{size: -1, uid: -1, gid: -1}
	for rest := p.extended; len(rest) > 0; {
		digits, _, found := bytes.Cut(rest[:min(len(rest), 8)], []byte(" "))
		n, err := strconv.ParseUint(string(digits), 10, 31)
		if !found || err != nil || n > uint64(len(rest)) || int(n) < len(digits)+2 || rest[n-1] != '\n' {
			return errExtended
		}
		key, value, found := bytes.Cut(rest[len(digits)+1:n-1], []byte("="))
		if !found || !p.records.set(string(key), string(value)) {
			return errExtended
		}
		rest = rest[n:]
	}
	return nil
}

// set handles one record, and reports whether the value is valid. It ignores unknown records.
func (r *records) set(key, value string) bool {
	var err error
	number := func(to *int64, bits int) {
		var n uint64
		n, err = strconv.ParseUint(value, 10, bits)
		*to = int64(n)
	}
	switch key {
	case recordPath:
		r.path = value
	case recordTarget:
		r.target = value
	case recordSize:
		number(&r.size, 63)
	case recordUID:
		number(&r.uid, 32)
	case recordGID:
		number(&r.gid, 32)
	case recordTime:
		r.timed = true
		r.modified, err = parseTime(value)
	case recordHoles:
		r.holes = value
	case recordSum:
		r.sum = value
	case recordProblem:
		r.text = value
	case recordDiscard:
		r.discard = true
	}
	return err == nil
}
