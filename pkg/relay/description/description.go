// Package description is what an end of the relay says of itself to a rendezvous service that
// takes it: the name of an executor's machine, and which program an end is. It goes with the
// request for the websocket (docs/spec/relay.md §8.4), and is for the people who read the
// service's status page. Nothing may depend on it: it is not checked.
package description

import (
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"codex.internal/pkg/wire/logtext"
)

// NameHeader has the name of an executor, as UTF-8 with the escapes of a URL's path.
const NameHeader = "Codex-Executor-Name"

const agentHeader = "User-Agent"

// How many bytes of a text are kept: more would not fit into a row of the page.
const (
	MaxName  = 64 // a host name's label has at most 63
	MaxAgent = 96 // the one of OpenAI's programs ends with system and terminal, and has about 60
)

// Description is what an end says of itself. Both may be empty.
type Description struct {
	Name  string // of an executor: its machine's, or what its user calls it
	Agent string // program and version: codex/1.2.3
}

// Header returns the headers that say so.
func (d Description) Header() http.Header {
	h := make(http.Header)
	if name := printable(d.Name, MaxName); name != "" {
		h.Set(NameHeader, url.PathEscape(name))
	}
	if agent := printable(d.Agent, MaxAgent); agent != "" {
		h.Set(agentHeader, strings.Map(ascii, agent))
	}
	return h
}

// Read returns what the headers of a request say. The texts are bounded and printable.
func Read(h http.Header) Description {
	name := h.Get(NameHeader)
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	return Description{Name: printable(name, MaxName), Agent: printable(h.Get(agentHeader), MaxAgent)}
}

// printable returns a text on one line, with the replacement character for each character that cannot
// be printed, such as control characters, line ends and those that change the direction of text.
func printable(text string, limit int) string {
	if len(text) > 4*limit {
		text = text[:4*limit] // what follows would be cut off
	}
	return logtext.Clip(strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(text, string(unicode.ReplacementChar)))), limit)
}

// ascii replaces a character that a header may not have.
func ascii(r rune) rune {
	if r > '~' {
		return '_'
	}
	return r
}
