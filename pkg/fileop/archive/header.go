package archive

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The records of extended headers: those of POSIX, and those of this package.
const (
	recordPath   = "path"
	recordTarget = "linkpath"
	recordSize   = "size"
	recordTime   = "mtime"
	recordUID    = "uid"
	recordGID    = "gid"

	recordHoles   = "CODEX.sparse" // the size, and offset:length of each part with data
	recordSum     = "CODEX.sha256"
	recordProblem = "CODEX.problem"
	recordDiscard = "CODEX.discard"
)

// The fields of a ustar header: where each begins, and its length.
type field struct{ at, length int }

var (
	fieldName   = field{0, 100}
	fieldMode   = field{100, 8}
	fieldUID    = field{108, 8}
	fieldGID    = field{116, 8}
	fieldSize   = field{124, 12}
	fieldTime   = field{136, 12}
	fieldSum    = field{148, 8}
	fieldType   = field{156, 1}
	fieldTarget = field{157, 100}
	fieldMagic  = field{257, 8}
	fieldPrefix = field{345, 155}
)

func (f field) of(header []byte) []byte { return header[f.at : f.at+f.length] }

// magic is the magic of ustar with its version.
const magic = "ustar\x0000"

// typeExtended is the type of an extended header for the next entry.
const typeExtended = 'x'

// zeros is the padding of the last block of a file.
var zeros [block]byte

// padding returns how many bytes fill up the last block of n bytes.
func padding(n int64) int { return int(-n & (block - 1)) }

// appendHeader appends the header of an entry. Before it, it appends an extended header with
// the values that do not fit.
func appendHeader(b []byte, e *Entry) []byte {
	var h [block]byte
	var records []byte
	name := e.Path
	if e.Type == Directory {
		name += "/"
	}
	if !putName(h[:], name) {
		records = appendRecord(records, recordPath, name)
	}
	if len(e.Target) <= fieldTarget.length {
		copy(fieldTarget.of(h[:]), e.Target)
	} else {
		records = appendRecord(records, recordTarget, e.Target)
	}
	putOctal(fieldMode.of(h[:]), int64(e.Perm&0o777))
	if !putOctal(fieldUID.of(h[:]), int64(e.UID)) {
		records = appendRecord(records, recordUID, strconv.FormatUint(uint64(e.UID), 10))
	}
	if !putOctal(fieldGID.of(h[:]), int64(e.GID)) {
		records = appendRecord(records, recordGID, strconv.FormatUint(uint64(e.GID), 10))
	}
	size := e.stored()
	if e.Type == Listed {
		size = e.Size
	}
	if !putOctal(fieldSize.of(h[:]), size) {
		records = appendRecord(records, recordSize, strconv.FormatInt(size, 10))
	}
	if !putOctal(fieldTime.of(h[:]), e.Modified.Unix()) && !e.Modified.IsZero() || e.Modified.Nanosecond() != 0 {
		records = appendRecord(records, recordTime, formatTime(e.Modified))
	}
	if e.Extents != nil {
		records = appendRecord(records, recordHoles, formatExtents(e))
	}
	if e.Sum != "" {
		records = appendRecord(records, recordSum, e.Sum)
	}
	if e.Text != "" {
		records = appendRecord(records, recordProblem, e.Text[:min(len(e.Text), maxProblem)])
	}
	if e.Discard {
		records = appendRecord(records, recordDiscard, "1")
	}
	if len(records) > 0 {
		b = appendExtended(b, records)
	}
	h[fieldType.at] = byte(e.Type)
	return append(b, seal(&h)...)
}

// appendExtended appends an extended header.
func appendExtended(b, records []byte) []byte {
	var h [block]byte
	copy(fieldName.of(h[:]), "extended")
	putOctal(fieldMode.of(h[:]), 0o644)
	putOctal(fieldUID.of(h[:]), 0)
	putOctal(fieldGID.of(h[:]), 0)
	putOctal(fieldTime.of(h[:]), 0)
	putOctal(fieldSize.of(h[:]), int64(len(records)))
	h[fieldType.at] = typeExtended
	b = append(b, seal(&h)...)
	b = append(b, records...)
	return append(b, zeros[:padding(int64(len(records)))]...)
}

// seal sets the magic and the checksum of a header, and returns the header.
func seal(h *[block]byte) []byte {
	copy(fieldMagic.of(h[:]), magic)
	sum := checksum(h[:])
	field := fieldSum.of(h[:])
	putOctal(field[:7], sum)
	field[7] = ' '
	return h[:]
}

// checksum returns the sum of the bytes of a header, with blanks in place of the checksum.
func checksum(h []byte) int64 {
	sum := int64(0)
	for _, c := range h {
		sum += int64(c)
	}
	for _, c := range fieldSum.of(h) {
		sum += ' ' - int64(c)
	}
	return sum
}

// putName sets the name, divided at a slash if it is long. It reports whether it fits.
func putName(h []byte, name string) bool {
	if len(name) <= fieldName.length {
		copy(fieldName.of(h), name)
		return true
	}
	last := len(name) - 2 // the path of a directory must not be divided at its final slash
	cut := strings.LastIndexByte(name[:min(fieldPrefix.length+1, last+1)], '/')
	if cut <= 0 || len(name)-cut-1 > fieldName.length {
		return false
	}
	copy(fieldPrefix.of(h), name[:cut])
	copy(fieldName.of(h), name[cut+1:])
	return true
}

// putOctal sets a number, and reports whether it fits.
func putOctal(f []byte, n int64) bool {
	digits := len(f) - 1
	fits := n >= 0 && n < 1<<(3*digits)
	if !fits {
		n = 0
	}
	for i := digits - 1; i >= 0; i-- {
		f[i] = '0' + byte(n&7)
		n >>= 3
	}
	return fits
}

// appendRecord appends a record of an extended header: its own length, key and value.
func appendRecord(b []byte, key, value string) []byte {
	rest := len(" ") + len(key) + len("=") + len(value) + len("\n")
	n := rest
	for size := 0; size != n; {
		size, n = n, rest+len(strconv.Itoa(n))
	}
	b = strconv.AppendInt(b, int64(n), 10)
	b = append(append(append(b, ' '), key...), '=')
	return append(append(b, value...), '\n')
}

func formatTime(t time.Time) string {
	seconds, nanos := t.Unix(), t.Nanosecond()
	if nanos == 0 {
		return strconv.FormatInt(seconds, 10)
	}
	sign := ""
	if seconds < 0 { // below zero, the fraction counts downwards too
		sign, seconds, nanos = "-", -seconds-1, 1e9-nanos
	}
	return fmt.Sprintf("%s%d.%09d", sign, seconds, nanos)
}

var errTime = errors.New("malformed time")

// parseTime reads seconds with a fraction.
func parseTime(s string) (time.Time, error) {
	whole, fraction, _ := strings.Cut(s, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, errTime
	}
	nanos := int64(0)
	if fraction != "" {
		digits := (fraction + "000000000")[:9]
		n, err := strconv.ParseUint(digits, 10, 32)
		if err != nil || strings.Trim(fraction, "0123456789") != "" {
			return time.Time{}, errTime
		}
		nanos = int64(n)
	}
	if strings.HasPrefix(whole, "-") {
		nanos = -nanos
	}
	return time.Unix(seconds, nanos), nil
}

func formatExtents(e *Entry) string {
	b := strconv.AppendInt(nil, e.Size, 10)
	for _, x := range e.Extents {
		b = strconv.AppendInt(append(b, ' '), x.Offset, 10)
		b = strconv.AppendInt(append(b, ':'), x.Length, 10)
	}
	return string(b)
}

var errHoles = errors.New("malformed description of a sparse file")

// parseExtents sets the size and the data ranges of a sparse file. stored is the number of data
// bytes that follow.
func parseExtents(e *Entry, text string, stored int64) error {
	words := strings.Fields(text)
	if len(words) == 0 || len(words)-1 > maxExtents {
		return errHoles
	}
	size, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil || size < 0 {
		return errHoles
	}
	e.Size, e.Extents = size, make([]Extent, 0, len(words)-1)
	at := int64(0)
	for _, word := range words[1:] {
		offset, length, _ := strings.Cut(word, ":")
		from, err := strconv.ParseInt(offset, 10, 64)
		n, err2 := strconv.ParseInt(length, 10, 64)
		if err != nil || err2 != nil || from < at || n <= 0 || from > size || n > size-from {
			return errHoles
		}
		at = from + n
		stored -= n
		e.Extents = append(e.Extents, Extent{from, n})
	}
	if stored != 0 {
		return errHoles
	}
	return nil
}

// cString returns the text of a field up to its first NUL.
func cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// parseOctal reads a number of a header.
func parseOctal(b []byte) (int64, error) {
	text := strings.Trim(cString(b), " ")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 8, 63)
	if err != nil {
		return 0, errors.New("malformed number in a header")
	}
	return int64(n), nil
}
