package audit

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Line is a line of a trail.
type Line struct {
	Seq  uint64
	Time string
	Event
	// Text is the line itself, without its newline. It is valid until the next line is read.
	Text []byte
}

// Verifier checks the files of a trail, from the oldest to the newest. The zero value trusts
// the key of the first signature.
type Verifier struct {
	// Key is the public key of the server; nil: that of the first signature.
	Key ed25519.PublicKey
	// Expect is a record that the trail must have: the Position of an earlier check. Zero: no
	// such record is known.
	Expect Position

	Lines      int    // number of checked lines
	Signatures int    // number of signatures among them
	First      uint64 // the number of the first line
	Last       uint64 // the number of the last line
	Signed     uint64 // number of the last line that a signature covers; 0: none
	Lost       uint64 // events that the server could not write

	last digest
}

// Position identifies a record of a trail. Its digest depends on all earlier records.
type Position struct {
	Seq    uint64
	Digest [sha256.Size]byte // SHA-256 of the record's line without the newline
}

// String returns the position in the form that ParsePosition reads.
func (p Position) String() string { return fmt.Sprintf("%d:%x", p.Seq, p.Digest) }

// ParsePosition decodes SEQ:HASH.
func ParsePosition(text string) (p Position, err error) {
	number, hash, _ := strings.Cut(text, ":")
	p.Seq, err = strconv.ParseUint(number, 10, 64)
	sum, err2 := hex.DecodeString(hash)
	if err != nil || err2 != nil || p.Seq == 0 || len(sum) != len(p.Digest) {
		return p, errors.New("a record is SEQ:HASH: its number, and the SHA-256 of its line in hexadecimal digits")
	}
	p.Digest = [sha256.Size]byte(sum)
	return p, nil
}

// Position returns the last record that was checked.
func (v *Verifier) Position() Position { return Position{v.Last, v.last} }

// End returns an error about the trail as a whole, after its last file: it does not have the
// record that Expect names, or no part of it is signed.
func (v *Verifier) End() error {
	switch want := v.Expect.Seq; {
	case want > v.Last:
		return fmt.Errorf("%w: it ends with record %d, and record %d is missing: it was cut, or a newer file is missing", ErrTrail, v.Last, want)
	case want > 0 && want < v.First:
		return fmt.Errorf("%w: it begins with record %d, and record %d is in an older file", ErrTrail, v.First, want)
	case v.Signatures == 0:
		return fmt.Errorf("%w: there is no signature: anybody who can write the file could have written it", ErrTrail)
	}
	return nil
}

// ErrTrail is the error of a trail that was changed.
var ErrTrail = errors.New("the audit trail is broken")

// broken describes an error in a line of a file.
func broken(line int, format string, args ...any) error {
	return fmt.Errorf("line %d: %w: %s", line, ErrTrail, fmt.Sprintf(format, args...))
}

// File checks the next file, and calls each for each of its lines. each may be nil.
func (v *Verifier) File(r io.Reader, each func(*Line) error) error {
	lines := bufio.NewReaderSize(r, MaxRecord+1)
	for n := 1; ; n++ {
		text, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF) && len(text) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return broken(n, "its end is missing")
		case errors.Is(err, bufio.ErrBufferFull):
			return broken(n, "it is longer than %d bytes", MaxRecord)
		case err != nil:
			return err
		}
		text = bytes.TrimSuffix(text, []byte{'\n'})
		line, err := v.line(n, text)
		if errors.Is(err, errPredecessor) {
			return changed(n, sha256.Sum256(text), lines)
		}
		if err == nil && each != nil {
			err = each(line)
		}
		if err != nil {
			return err
		}
	}
}

// errPredecessor means that a line does not have the digest of the line before it.
var errPredecessor = errors.New("the line has another digest of the line before it")

// changed returns the error of line n, whose own digest is sum, with the digest of another predecessor. Either the
// line before was changed, or line n was. The line after it, if there is one, has the digest that line n had.
func changed(n int, sum digest, after *bufio.Reader) error {
	const why = "it was changed after it was written: line %d has the digest of another line"
	var next *record
	if text, err := after.ReadSlice('\n'); err == nil {
		next, _ = parse(bytes.TrimSuffix(text, []byte{'\n'}))
	}
	switch {
	case next != nil && next.Prev != sum.String():
		return broken(n, why, n+1)
	case n == 1:
		return broken(n, "the last line of the file before it was changed after it was written: line 1 has the digest of another line")
	case next == nil:
		return broken(n-1, "it or line %d was changed after it was written", n)
	default:
		return broken(n-1, why, n)
	}
}

// line checks the next line, the nth of its file.
func (v *Verifier) line(n int, text []byte) (*Line, error) {
	r, err := parse(text)
	if err != nil {
		return nil, broken(n, "it is not a record: %v", err)
	}
	switch {
	case v.Lines == 0:
		v.First = r.Seq
		if first := (digest{}).String(); (r.Seq == 1) != (r.Prev == first) {
			return nil, broken(n, "only the first record of a trail may have the number 1 and no predecessor")
		}
	case r.Seq != v.Last+1:
		return nil, broken(n, "it has the number %d, expected %d", r.Seq, v.Last+1)
	case r.Prev != v.last.String():
		return nil, errPredecessor
	}
	if r.Kind == EventSignature || r.Key != "" || r.Signature != "" {
		// The signature covers this exact JSON text.
		if same, err := json.Marshal(r); err != nil || !bytes.Equal(same, text) {
			return nil, broken(n, "it is spelled otherwise than it was written")
		}
		if err := v.signature(n, r); err != nil {
			return nil, err
		}
	}
	if digest := sha256.Sum256(text); r.Seq == v.Expect.Seq && digest != v.Expect.Digest {
		return nil, broken(n, "record %d differs from the expected one", r.Seq)
	}
	v.Lines++
	v.Last, v.last = r.Seq, sha256.Sum256(text)
	v.Lost += r.Lost
	return &Line{Seq: r.Seq, Time: r.Time, Event: r.Event, Text: text}, nil
}

// signature checks a signature.
func (v *Verifier) signature(n int, r *record) error {
	if v.Lines == 0 {
		return broken(n, "a file does not begin with a signature")
	}
	key, err := base64.StdEncoding.Strict().DecodeString(r.Key)
	signature, err2 := base64.StdEncoding.Strict().DecodeString(r.Signature)
	switch {
	case err != nil || err2 != nil || len(key) != ed25519.PublicKeySize:
		return broken(n, "its signature is malformed")
	case v.Key == nil:
		v.Key = key
	case !v.Key.Equal(ed25519.PublicKey(key)):
		return broken(n, "it is signed by another key: %s", r.Key)
	}
	signed, err := r.signedText()
	if err != nil || !ed25519.Verify(v.Key, signed, signature) {
		return broken(n, "its signature is wrong: a record after number %d was changed after it was written", v.Signed)
	}
	v.Signatures++
	v.Signed = r.Seq
	return nil
}

// parse decodes a line. A member that records do not have is an error, so that a trail cannot
// contain data that a reader overlooks.
func parse(text []byte) (*record, error) {
	var r record
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows it")
	}
	if r.Seq == 0 || r.Kind == "" || len(r.Prev) != 2*sha256.Size || strings.ToLower(r.Prev) != r.Prev {
		return nil, errors.New("its number, its event or its digest is missing")
	}
	return &r, nil
}

// PublicKey returns the key of the signatures in base64; empty: no line is signed.
func (v *Verifier) PublicKey() string { return base64.StdEncoding.EncodeToString(v.Key) }

// Member is a member of an event, in readable form.
type Member struct{ Name, Value string }

// shown returns a value as text in which no equals sign stands for itself, so that it cannot
// look like further members of the line. The text is JSON or, for a string, Go syntax; a string
// without blanks, quotes and equals signs is not quoted.
func shown(value json.RawMessage) string {
	var text string
	switch {
	case json.Unmarshal(value, &text) != nil:
		return strings.ReplaceAll(string(value), "=", `\u003d`)
	case text == "" || strings.ContainsAny(text, ` ="\`):
		return strings.ReplaceAll(strconv.Quote(text), "=", `\x3d`)
	default:
		return text
	}
}

// Members returns the members of an event that are set, except its kind, in the order of a
// line.
func (e *Event) Members() (list []Member) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	_, _ = d.Token() // {
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return list
		}
		if name != "event" {
			list = append(list, Member{fmt.Sprint(name), shown(value)})
		}
	}
	return list
}
