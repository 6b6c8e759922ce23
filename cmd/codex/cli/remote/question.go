package remote

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"codex.internal/pkg/host/terminal"
)

// question is a question about a command. Its texts have no control characters.
type question struct {
	facts   []string // the event, and where it happened
	command string
	ask     string
	no      string // the label of the choice n; "": the word no
}

// The size that is assumed for a terminal that does not report one, and the smallest size for a
// question: the longest choice and a line of the command must fit.
const (
	usualRows, usualCols = 24, 80
	leastRows, leastCols = 9, 32
)

// errSmallTerminal is the reason why the user is not asked.
var errSmallTerminal = fmt.Errorf("the terminal shows less than %d lines of %d characters, too few for the question; make it larger", leastRows, leastCols)

const (
	choices = "  [y] yes, once   [s] yes, for this session   [n] "
	cue     = "> "
	// bar marks a line that continues the previous one, so that spaces in a command cannot make a
	// part of it look like a line of the question.
	bar = "  | "
	// below is a part of the line above a question.
	below = "== codex asks; above this line is other output "
)

// screenful is the content of the screen: a text, and the cue after which the user types the answer.
type screenful struct{ text, cue string }

// screenfuls lays out a question for a terminal. It splits a long question into parts that are
// shown one after another, so that every part of the command has been on the screen.
func (q question) screenfuls(rows, cols int) ([]screenful, error) {
	if rows < leastRows || cols < leastCols {
		return nil, errSmallTerminal
	}
	var body []string
	for _, fact := range q.facts {
		body = append(body, wrap(fact, cols)...)
	}
	body = append(body, wrap("  command: "+q.command, cols)...)
	no := q.no
	if no == "" {
		no = "no"
	}
	oneLine := choices + no + "   "
	tail := append(wrap(q.ask, cols), oneLine)
	if cols <= len(oneLine)+len(cue) {
		tail = append(wrap(q.ask, cols), "  [y] yes, once", "  [s] yes, for this session", "  [n] "+no, "")
	}
	line := strings.Repeat("=", cols)
	if len(below) < cols {
		line = below + line[len(below):]
	}
	// Subtract the line above the question, and an empty line before it that Reset creates.
	space := rows - 2 - len(tail)
	if len(body) <= space {
		return []screenful{{join(line, body, tail), cue}}, nil
	}
	space-- // leave space for the number of the part
	parts := (len(body) + space - 1) / space
	var all []screenful
	for i := range parts {
		number := fmt.Sprintf("part %d of %d", i+1, parts)
		some := body[i*space : min(len(body), (i+1)*space)]
		if i == parts-1 {
			all = append(all, screenful{join(line, append([]string{number}, some...), tail), cue})
		} else {
			more := []string{"  [Enter] the next part", "  [n] no "}
			all = append(all, screenful{join(line, append([]string{number}, some...), more), cue})
		}
	}
	return all, nil
}

// join returns the text of a screenful. Its last line has no line break.
func join(line string, body, tail []string) string {
	lines := append(append([]string{line}, body...), tail...)
	return strings.Join(lines, "\n")
}

// wrap breaks a line before the last column, because terminals handle that column differently.
// Characters outside of ASCII count as two columns.
func wrap(text string, cols int) []string {
	var lines []string
	start, width := 0, 0
	for at, r := range text {
		w := 1
		if r >= utf8.RuneSelf {
			w = 2
		}
		if width+w >= cols {
			lines = append(lines, text[start:at])
			start, width = at, len(bar)
		}
		width += w
	}
	lines = append(lines, text[start:])
	for i := 1; i < len(lines); i++ {
		lines[i] = bar + lines[i]
	}
	return lines
}

// isYes, isSession and isNext recognize answers. Any other answer means no.
func isYes(answer string) bool {
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes")
}

func isSession(answer string) bool { return strings.EqualFold(answer, "s") }

func isNext(answer string) bool { return answer == "" }

// before returns the bytes that show a screenful. If only plain text was written to the terminal before, it stays
// visible above the question; a dumb terminal then gets no sequences.
func (s screenful) before(written terminal.Plain, dumb bool) string {
	reset := terminal.ResetInPlace()
	switch {
	case !written.Plain():
		return terminal.Reset() + s.text
	case dumb:
		reset = ""
	}
	if written.InLine() {
		reset = "\n" + reset
	}
	return reset + s.text
}
