package relay

import (
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"codex.internal/pkg/wire/logtext"
)

// NameHeader is the header with the name of an executor: UTF-8, escaped like the path of a URL.
const NameHeader = "Codex-Executor-Name"

const agentHeader = "User-Agent"

// These limit a description, in bytes. Longer texts would not fit into a row of the status page.
const (
	maxDescribedName  = 64 // a label of a host name has at most 63
	MaxDescribedAgent = 96 // the description of OpenAI's programs ends with system and terminal, and has about 60
)

// Description is how an end introduces itself to a rendezvous service that announces
// accepts_description (docs/spec/relay.md §8.4). It is sent with the request for the websocket, and
// the service's status page shows it. It is not verified, so no decision may depend on it. Both
// texts may be empty.
type Description struct {
	Name  string // of an executor: the name of its machine, or one that its user gave
	Agent string // program and version: codex/1.2.3
}

// Header returns the headers that carry the description.
func (d Description) Header() http.Header {
	h := make(http.Header)
	if name := printable(d.Name, maxDescribedName); name != "" {
		h.Set(NameHeader, url.PathEscape(name))
	}
	if agent := printable(d.Agent, MaxDescribedAgent); agent != "" {
		h.Set(agentHeader, strings.Map(ascii, agent))
	}
	return h
}

// ReadDescription returns the description in the headers of a request. Its texts are bounded and printable.
func ReadDescription(h http.Header) Description {
	name := h.Get(NameHeader)
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	return Description{Name: printable(name, maxDescribedName), Agent: printable(h.Get(agentHeader), MaxDescribedAgent)}
}

// printable returns a text on one line. It substitutes the replacement character for each
// unprintable character: control characters, line ends, and characters that change the direction of
// text.
func printable(text string, limit int) string {
	if len(text) > 4*limit {
		text = text[:4*limit] // the rest would be cut off
	}
	return logtext.Clip(strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(text, string(unicode.ReplacementChar)))), limit)
}

// ascii replaces a character that is not allowed in a header.
func ascii(r rune) rune {
	if r > '~' {
		return '_'
	}
	return r
}
