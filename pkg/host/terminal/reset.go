package terminal

import "strings"

// Reset returns the sequence that brings a terminal into a known state, whatever
// was written to it before: the next text is shown as characters
// in the usual colours, and begins on an empty line at the bottom of the ordinary
// screen, below everything else. Nothing is erased: the screen scrolls by a line.
//
// RIS (ESC c) would do most of it, but would erase the output that a person needs
// to answer a question. Each sequence here undoes a state that hides text from a
// reader. Terminals ignore sequences that they do not know.
func Reset() string { return reset }

var reset = strings.Join([]string{
	// End sequences and strings that were left open. CAN ends all of them in
	// terminals that follow DEC; in others ST and BEL do. A string for the printer
	// ends only with its own sequence, and the Tektronix and VT52 modes only with
	// theirs.
	"\x18", "\x1b\\", "\a", "\x1b[4i", "\x1b[?4i", "\x1b\x03", "\x1b<",
	// The ordinary screen. Leaving the alternate screen by 1049 restores a cursor
	// that the output has saved, with its colours and modes, so those are reset
	// later. If there was no alternate screen, the current position is restored.
	// Some terminals support only 1049, others also switch by 47 and 1047.
	"\x1b7", "\x1b[?1049l", "\x1b[?1047l", "\x1b[?47l", "\x1b[0$}",
	// Soft reset, and what terminals leave out of it: memory lock, keyboard lock,
	// local echo, insert mode, new-line mode.
	"\x1b[!p", "\x1bm", "\x1b[2l", "\x1b[12h", "\x1b[4l", "\x1b[20l",
	// Cursor keys, reverse video, origin mode, autowrap, the cursor, national
	// character sets, reverse wraparound, keypad, left and right margins.
	"\x1b[?1l", "\x1b[?5l", "\x1b[?6l", "\x1b[?7h", "\x1b[?25h", "\x1b[?42l", "\x1b[?45l", "\x1b[?66l", "\x1b>", "\x1b[?69l",
	// Turn off mouse and focus reports, bracketed paste, synchronized output
	// (2026), size reports, and other encodings of keys (xterm's and kitty's): all
	// of these make an answer unreadable, or invisible.
	"\x1b[?9l", "\x1b[?1000l", "\x1b[?1001l", "\x1b[?1002l", "\x1b[?1003l", "\x1b[?1004l", "\x1b[?1005l", "\x1b[?1006l",
	"\x1b[?1015l", "\x1b[?1016l", "\x1b[?2004l", "\x1b[?2026l", "\x1b[?2031l", "\x1b[?2048l", "\x1b[>4;0m", "\x1b[=0u",
	// Character sets: UTF-8, ASCII in G0 to G3, G0 on the left and G2 on the right.
	"\x1b%G", "\x1b(B", "\x1b)B", "\x1b*B", "\x1b+B", "\x0f", "\x1b}",
	// Colours that were given other meanings: the palette (on Linux's console too),
	// special ones, foreground, background, cursor, selection. A link left open.
	"\x1b]104\x1b\\", "\x1b]105\x1b\\", "\x1b]110\x1b\\", "\x1b]111\x1b\\", "\x1b]112\x1b\\", "\x1b]117\x1b\\", "\x1b]119\x1b\\",
	"\x1b]R\x1b\\", "\x1b]8;;\x1b\\",
	// Remove pictures that kitty's protocol places over text.
	"\x1b_Ga=d,d=A\x1b\\",
	// Attributes: protection and colours, concealment among them.
	"\x1b[0\"q", "\x1b[0m",
	// The scrolling region, and last the place: the bottom line, of single width,
	// and a new one below it.
	"\x1b[r", "\x1b[9999;1H", "\x1b#5", "\n", "\x1b[0m",
}, "")
