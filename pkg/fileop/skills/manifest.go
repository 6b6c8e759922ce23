package skills

import (
	"strings"

	"codex.internal/pkg/wire/jsonwire"
)

// Manifest is a plugin's manifest.
type Manifest struct {
	Name, Display string
	Valid         bool    // the manifest is JSON
	servers, apps *string // paths of files beside it; nil: the default
	inline        bool    // the servers are in the manifest itself
}

// ParseManifest reads a manifest. Members of other types than expected are ignored. If the text
// is not JSON, or an object has a member twice, the result is empty.
func ParseManifest(text string) Manifest {
	var m Manifest
	r := jsonwire.NewReader([]byte(text))
	err := r.Struct("a manifest", jsonwire.FieldsFunc(func(c *jsonwire.Codec) {
		c.LaxText("name", &m.Name)
		c.Read("interface", 0, func(r *jsonwire.Reader) error {
			if r.Peek() != jsonwire.Object {
				return r.Skip()
			}
			return r.Struct("an interface", jsonwire.FieldsFunc(func(c *jsonwire.Codec) { c.LaxText("displayName", &m.Display) }))
		})
		c.Read("mcpServers", 0, func(r *jsonwire.Reader) error {
			m.inline = r.Peek() == jsonwire.Object
			return readPath(r, &m.servers)
		})
		c.Read("apps", 0, func(r *jsonwire.Reader) error { return readPath(r, &m.apps) })
	}))
	if err != nil || r.End() != nil {
		return Manifest{}
	}
	m.Name, m.Display, m.Valid = OneBlank(m.Name), OneBlank(m.Display), true
	return m
}

// readPath reads a string into to. It skips any other value; to then stays nil.
func readPath(r *jsonwire.Reader, to **string) error {
	if r.Peek() != jsonwire.String {
		return r.Skip()
	}
	s, err := r.String()
	*to = &s
	return err
}

// OneBlank returns a text with one blank in place of each run of white space, and without white
// space at its ends.
func OneBlank(text string) string { return strings.Join(strings.Fields(text), " ") }
