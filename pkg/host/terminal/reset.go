package terminal

import "strings"

// Reset returns the sequence that brings a terminal into a known state, whatever was written to it
// before. The next text is shown as characters in the usual colours. It begins on an empty line at
// the bottom of the ordinary screen, below everything else. Nothing is erased: the screen scrolls
// by a line.
//
// RIS (ESC c) would do most of it, but would erase the output that a person needs
// to answer a question. Each sequence here undoes a state that hides text from a
// reader. Terminals ignore sequences that they do not know.
func Reset() string { return reset }

// ResetInPlace is Reset for a terminal to which only plain text was written since it was in a known state (see
// Plain). The cursor stays where it is, so that the text stays visible, and all below it is erased.
func ResetInPlace() string { return resetInPlace }

// The last sequences reset origin mode, the scrolling region and the position. The cursor goes to the bottom line, which
// gets single width, and then to a new line below it.
var reset = resetStates + resetModes + strings.Join([]string{"\x1b[?6l", "\x1b[r", "\x1b[9999;1H", "\x1b#5", "\n", "\x1b[0m"}, "")

// Resetting origin mode and the scrolling region moves the cursor, so its position is saved before. That is possible only
// behind the soft reset, which forgets it.
var resetInPlace = resetStates + strings.Join([]string{"\x1b7", "\x1b[?6l", "\x1b[r", "\x1b8"}, "") + resetModes + "\x1b[J"

var resetStates = strings.Join([]string{
	// These end sequences and strings that were left open. CAN ends all of them in terminals that
	// follow DEC; in other terminals ST and BEL do. A string for the printer ends only with its own
	// sequence. The Tektronix and VT52 modes end only with their own sequences.
	"\x18", "\x1b\\", "\a", "\x1b[4i", "\x1b[?4i", "\x1b\x03", "\x1b<",
	// These select the ordinary screen. Leaving the alternate screen by 1049 restores a cursor that
	// the output has saved, with its colours and modes, so those are reset later. If there was no
	// alternate screen, the current position is restored. Some terminals support only 1049; others
	// also switch by 47 and 1047.
	"\x1b7", "\x1b[?1049l", "\x1b[?1047l", "\x1b[?47l", "\x1b[0$}",
	// This is a soft reset, followed by settings that some terminals do not reset with it: memory
	// lock, keyboard lock, local echo, insert mode, new-line mode.
	"\x1b[!p", "\x1bm", "\x1b[2l", "\x1b[12h", "\x1b[4l", "\x1b[20l",
}, "")

var resetModes = strings.Join([]string{
	// These reset cursor keys, reverse video, autowrap, the cursor, national character
	// sets, reverse wraparound, the keypad, and the left and right margins.
	"\x1b[?1l", "\x1b[?5l", "\x1b[?7h", "\x1b[?25h", "\x1b[?42l", "\x1b[?45l", "\x1b[?66l", "\x1b>", "\x1b[?69l",
	// These turn off mouse and focus reports, bracketed paste, synchronized output (2026), size
	// reports, and other encodings of keys (xterm's and kitty's). All of these make an answer
	// unreadable or invisible.
	"\x1b[?9l", "\x1b[?1000l", "\x1b[?1001l", "\x1b[?1002l", "\x1b[?1003l", "\x1b[?1004l", "\x1b[?1005l", "\x1b[?1006l",
	"\x1b[?1015l", "\x1b[?1016l", "\x1b[?2004l", "\x1b[?2026l", "\x1b[?2031l", "\x1b[?2048l", "\x1b[>4;0m", "\x1b[=0u",
	// These reset the character sets: UTF-8, ASCII in G0 to G3, G0 on the left and G2 on the right.
	"\x1b%G", "\x1b(B", "\x1b)B", "\x1b*B", "\x1b+B", "\x0f", "\x1b}",
	// These reset colours that were redefined: the palette (on Linux's console too), special
	// colours, foreground, background, cursor, selection. They also end an open link.
	"\x1b]104\x1b\\", "\x1b]105\x1b\\", "\x1b]110\x1b\\", "\x1b]111\x1b\\", "\x1b]112\x1b\\", "\x1b]117\x1b\\", "\x1b]119\x1b\\",
	"\x1b]R\x1b\\", "\x1b]8;;\x1b\\",
	// This removes pictures that kitty's protocol has placed over text.
	"\x1b_Ga=d,d=A\x1b\\",
	// These reset the attributes: protection and colours, including concealment.
	"\x1b[0\"q", "\x1b[0m",
}, "")
