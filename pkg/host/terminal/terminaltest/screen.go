// Package terminaltest is a terminal for tests. It shows the text that a person at an xterm-like
// terminal would see after a program has written some bytes.
//
// Libraries were tried instead. TestReset of package terminal leaves a terminal in states that hide a
// question. github.com/hinshun/vt10x wrongly shows the question in nine of these states, and
// github.com/charmbracelet/x/vt in six (output to a printer, synchronized output, left and right margins,
// kitty's pictures, G1 shifted in). The latter also does not end margins when DECLRMM is turned off.
package terminaltest

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Screen is the screen of a terminal. Write changes it according to the bytes and the state that
// earlier bytes have set.
type Screen struct {
	rows, cols int
	modes
	x, y     int
	cells    [][]cell
	other    [][]cell // the ordinary screen while the alternate one is shown, else nil
	saved    *saved
	rest     []byte // the beginning of a character
	parse    func(*Screen, rune)
	args     string
	text     string // of an unfinished string
	hidden   bool   // output goes to a printer or a status line
	vt52     bool
	held     [][]cell // the shown screen during synchronized output, else nil
	palette  bool     // the meaning of colours was changed
	pictures bool     // pictures cover the text
}

type modes struct {
	style                       style
	top, bottom                 int // of the scrolling region
	left, right                 int
	margins                     bool // left and right count
	wrap, insert, origin        bool
	sets                        [4]rune // B is ASCII
	shift                       int
	reports, cursorOff, reverse bool
}

type style struct {
	front, back string
	concealed   bool
}

type cell struct {
	r rune
	style
}

type saved struct {
	x, y  int
	modes modes
}

// NewScreen returns an empty screen.
func NewScreen(rows, cols int) *Screen {
	s := &Screen{rows: rows, cols: cols, parse: (*Screen).ground}
	s.softReset()
	s.cells = s.blank()
	return s
}

// Write executes and shows bytes.
func (s *Screen) Write(b []byte) (int, error) {
	text := append(s.rest, b...)
	s.rest = nil
	for len(text) > 0 {
		if !utf8.FullRune(text) {
			s.rest = slices.Clone(text)
			break
		}
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		s.take(r)
	}
	return len(b), nil
}

// Text returns the readable text, without the empty lines around it.
func (s *Screen) Text() string {
	cells := s.cells
	if s.held != nil {
		cells = s.held
	}
	lines := make([]string, len(cells))
	for i, line := range cells {
		var b strings.Builder
		for _, c := range line {
			if c.concealed || c.front != "" && c.front == c.back || s.palette || s.pictures {
				c.r = ' '
			}
			b.WriteRune(c.r)
		}
		lines[i] = strings.TrimRight(b.String(), " ")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// Modes lists the modes in which keys or the cursor differ from the default.
func (s *Screen) Modes() string {
	var on []string
	for name, is := range map[string]bool{"reports": s.reports, "no cursor": s.cursorOff, "reverse video": s.reverse} {
		if is {
			on = append(on, name)
		}
	}
	slices.Sort(on)
	return strings.Join(on, ", ")
}

// Cursor returns the line and the column of the cursor, from 0.
func (s *Screen) Cursor() (line, column int) { return s.y, s.x }

func (s *Screen) softReset() {
	s.modes = modes{bottom: s.rows - 1, right: s.cols - 1, wrap: true, sets: [4]rune{'B', 'B', 'B', 'B'}}
}

func (s *Screen) blankLine() []cell { return slices.Repeat([]cell{{r: ' '}}, s.cols) }

func (s *Screen) blank() [][]cell {
	cells := make([][]cell, s.rows)
	for i := range cells {
		cells[i] = s.blankLine()
	}
	return cells
}

func (s *Screen) take(r rune) {
	switch {
	case s.hidden:
		s.unhide(r)
	case r == 0x18 || r == 0x1a:
		s.parse, s.text = (*Screen).ground, ""
	case r == 0x1b:
		s.parse, s.args = (*Screen).escape, ""
	default:
		s.parse(s, r)
	}
}

// unhide searches for the sequences that end a mode in which output is not shown.
func (s *Screen) unhide(r rune) {
	s.args += string(r)
	if strings.HasSuffix(s.args, "\x1b[4i") || strings.HasSuffix(s.args, "\x1b[0$}") {
		s.hidden, s.parse = false, (*Screen).ground
	}
}

func (s *Screen) ground(r rune) {
	switch {
	case r < ' ':
		s.control(r)
	case r != 0x7f:
		s.put(r)
	}
}

// str handles a character of an OSC, DCS, SOS, PM or APC string.
func (s *Screen) str(r rune) {
	if r == '\a' && s.text[0] == ']' {
		s.parse = (*Screen).ground
		s.command()
		return
	}
	s.text += string(r)
}

// command handles a finished string.
func (s *Screen) command() {
	text := s.text
	s.text = ""
	switch {
	case strings.HasPrefix(text, "]10;"), strings.HasPrefix(text, "]11;"), strings.HasPrefix(text, "]4;"):
		s.palette = true
	case text == "]104", text == "]110", text == "]111":
		s.palette = false
	case strings.HasPrefix(text, "_Ga=T"):
		s.pictures = true
	case strings.HasPrefix(text, "_Ga=d"):
		s.pictures = false
	}
}

func (s *Screen) control(r rune) {
	switch r {
	case '\b':
		s.x = max(0, s.x-1)
	case '\t':
		s.x = min(s.cols-1, s.x/8*8+8)
	case '\n', '\v', '\f':
		s.down()
	case '\r':
		s.x = 0
		if s.margins {
			s.x = s.left
		}
	case 0x0e, 0x0f:
		s.shift = 0x0f - int(r)
	}
}

func (s *Screen) down() {
	switch {
	case s.y == s.bottom:
		s.scroll(1)
	case s.y < s.rows-1:
		s.y++
	}
}

func (s *Screen) scroll(n int) {
	for ; n > 0; n-- {
		s.cells = slices.Insert(slices.Delete(s.cells, s.top, s.top+1), s.bottom, s.blankLine())
	}
	for ; n < 0; n++ {
		s.cells = slices.Insert(slices.Delete(s.cells, s.bottom, s.bottom+1), s.top, s.blankLine())
	}
}

func (s *Screen) put(r rune) {
	if s.sets[s.shift] != 'B' && r > ' ' {
		r = '#'
	}
	end := s.cols
	if s.margins {
		end = s.right + 1
	}
	if s.x >= end {
		if s.x = end - 1; s.wrap {
			s.control('\r')
			s.down()
		}
	}
	line := s.cells[s.y]
	if s.insert {
		copy(line[s.x+1:], line[s.x:])
	}
	line[s.x] = cell{r, s.style}
	s.x++
}

func (s *Screen) escape(r rune) {
	s.parse = (*Screen).ground
	if s.vt52 {
		s.vt52 = r != '<'
		return
	}
	if s.args != "" {
		if at := strings.Index("()*+", s.args); at >= 0 {
			s.sets[at] = r
		}
		s.args = ""
		return
	}
	switch r {
	case ' ', '#', '%', '(', ')', '*', '+', '-', '.', '/':
		s.args, s.parse = string(r), (*Screen).escape
	case '[':
		s.parse = (*Screen).csi
	case ']', 'P', 'X', '^', '_':
		s.text, s.parse = string(r), (*Screen).str
	case '\\':
		s.command()
	case 'n', 'o':
		s.shift = 2 + int(r-'n')
	case '7':
		s.save()
	case '8':
		s.restore()
	case 'D':
		s.down()
	case 'E':
		s.x = 0
		s.down()
	case 'M':
		if s.y == s.top {
			s.scroll(-1)
		} else {
			s.y = max(0, s.y-1)
		}
	case 'c':
		*s = *NewScreen(s.rows, s.cols)
	}
}

func (s *Screen) save() { s.saved = &saved{s.x, s.y, s.modes} }

func (s *Screen) restore() {
	if s.saved == nil {
		s.x, s.y = 0, 0
		return
	}
	s.x, s.y = s.saved.x, s.saved.y
	s.style, s.sets, s.shift, s.origin = s.saved.modes.style, s.saved.modes.sets, s.saved.modes.shift, s.saved.modes.origin
}

func (s *Screen) csi(r rune) {
	switch {
	case r < ' ':
		s.control(r)
	case r < '@' || r > '~':
		s.args += string(r)
	default:
		s.parse = (*Screen).ground
		s.sequence(s.args, r)
		if !s.hidden {
			s.args = ""
		}
	}
}

func (s *Screen) sequence(args string, r rune) {
	private := strings.TrimLeft(args, "?>=<") != args
	var n []int
	for field := range strings.SplitSeq(strings.TrimRight(strings.TrimLeft(args, "?>=<"), " !\"$'"), ";") {
		v, _ := strconv.Atoi(field)
		n = append(n, v)
	}
	n = append(n, 0)
	count := max(1, n[0])
	switch {
	case r == 'p' && args == "!":
		s.softReset()
	case args == "1$" && r == '}', args == "5" && r == 'i':
		s.hidden = true
	case private && (r == 'h' || r == 'l'):
		for _, mode := range n[:len(n)-1] {
			s.mode(mode, r == 'h')
		}
	case private:
	case r == 'm':
		s.colours(n[:len(n)-1])
	case r == 'H' || r == 'f':
		s.y, s.x = min(s.rows-1, max(0, n[0]-1)), min(s.cols-1, max(0, n[1]-1))
		if s.origin {
			s.y = min(s.bottom, s.y+s.top)
		}
	case r == 'A':
		s.y = max(0, s.y-count)
	case r == 'B':
		s.y = min(s.rows-1, s.y+count)
	case r == 'C':
		s.x = min(s.cols-1, s.x+count)
	case r == 'D':
		s.x = max(0, s.x-count)
	case r == 'd':
		s.y = min(s.rows-1, count-1)
	case r == 'J' && n[0] == 2:
		s.cells = s.blank()
	case r == 'J':
		copy(s.cells[s.y][min(s.x, s.cols-1):], s.blankLine())
		for y := s.y + 1; y < s.rows; y++ {
			s.cells[y] = s.blankLine()
		}
	case r == 'K':
		copy(s.cells[s.y][min(s.x, s.cols-1):], s.blankLine())
	case r == 'S':
		s.scroll(min(count, s.rows))
	case r == 'T':
		s.scroll(-min(count, s.rows))
	case r == 'r':
		top, bottom := max(1, n[0]), n[1]
		if bottom == 0 {
			bottom = s.rows
		}
		if top < bottom && bottom <= s.rows {
			s.top, s.bottom, s.x, s.y = top-1, bottom-1, 0, 0
		}
	case r == 's' && s.margins:
		s.left, s.right, s.x, s.y = max(1, n[0])-1, min(max(n[1], n[0]+2), s.cols)-1, 0, 0
	case r == 's':
		s.save()
	case r == 'u':
		s.restore()
	case (r == 'h' || r == 'l') && n[0] == 4:
		s.insert = r == 'h'
	}
}

func (s *Screen) mode(mode int, on bool) {
	switch mode {
	case 1, 9, 66, 1000, 1001, 1002, 1003, 1004, 2004:
		s.reports = on
	case 2:
		s.vt52 = !on
	case 5:
		s.reverse = on
	case 6:
		s.origin, s.x, s.y = on, 0, 0
	case 7:
		s.wrap = on
	case 25:
		s.cursorOff = !on
	case 69:
		s.margins, s.left, s.right = on, 0, s.cols-1
	case 2026:
		s.held = nil
		if on {
			for _, line := range s.cells {
				s.held = append(s.held, slices.Clone(line))
			}
		}
	case 47, 1047, 1049:
		if on && mode == 1049 {
			s.save()
		}
		switch {
		case on && s.other == nil:
			s.other, s.cells = s.cells, s.blank()
		case !on && s.other != nil:
			s.cells, s.other = s.other, nil
		}
		if !on && mode == 1049 {
			s.restore()
		}
	}
}

func (s *Screen) colours(n []int) {
	for i := 0; i < len(n); i++ {
		switch c := n[i]; {
		case c == 0:
			s.style = style{}
		case c == 8:
			s.style.concealed = true
		case c == 28:
			s.style.concealed = false
		case c == 38 || c == 48:
			end := min(len(n), i+3)
			if i+1 < len(n) && n[i+1] == 2 {
				end = min(len(n), i+5)
			}
			colour := ""
			for _, part := range n[i+1 : end] {
				colour += strconv.Itoa(part) + ";"
			}
			if i = end - 1; c == 38 {
				s.style.front = colour
			} else {
				s.style.back = colour
			}
		case c >= 30 && c <= 37:
			s.style.front = strconv.Itoa(c - 30)
		case c >= 40 && c <= 47:
			s.style.back = strconv.Itoa(c - 40)
		case c == 39:
			s.style.front = ""
		case c == 49:
			s.style.back = ""
		}
	}
}
