package terminal

import (
	"unicode/utf8"
)

// Plain finds out whether text that is written to a terminal changes nothing but the text on it: it is UTF-8 and has no
// control characters except tabs and line ends. The zero value is ready to use.
type Plain struct {
	other   bool
	ended   bool   // the last character is a line end
	partial []byte // an incomplete character
}

// See looks at the next written text.
func (p *Plain) See(b []byte) {
	if len(b) == 0 || p.other {
		return
	}
	p.partial = append(p.partial, b...)
	for len(p.partial) > 0 && utf8.FullRune(p.partial) {
		r, n := utf8.DecodeRune(p.partial)
		switch {
		case r == '\n':
			p.ended = true
		case r == utf8.RuneError && n == 1, r < ' ' && r != '\t' && r != '\r', r >= 0x7f && r < 0xa0:
			p.other, p.partial = true, nil
			return
		case r != '\r':
			p.ended = false
		}
		p.partial = p.partial[n:]
	}
}

// Plain reports whether all text was plain.
func (p *Plain) Plain() bool { return !p.other && len(p.partial) == 0 }

// InLine reports whether the cursor may be in a line: text follows the last line end, or nothing was written.
func (p *Plain) InLine() bool { return !p.ended }
