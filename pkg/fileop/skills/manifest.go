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

// ParseManifest reads a manifest. Members of other types than expected are ignored. If the
// text is not JSON, the result is empty.
func ParseManifest(text string) Manifest {
	var m Manifest
	r := jsonwire.NewReader([]byte(text))
	err := r.Object("a manifest", func(name []byte) (err error) {
		switch string(name) {
		case "name":
			err = readName(r, &m.Name)
		case "interface":
			if r.Peek() != jsonwire.Object {
				return r.Skip()
			}
			return r.Object("an interface", func(name []byte) error {
				if string(name) == "displayName" {
					return readName(r, &m.Display)
				}
				return r.Skip()
			})
		case "mcpServers":
			if m.inline = r.Peek() == jsonwire.Object; m.inline {
				return r.Skip()
			}
			m.servers, err = readString(r)
		case "apps":
			m.apps, err = readString(r)
		default:
			err = r.Skip()
		}
		return err
	})
	if err != nil || r.End() != nil {
		return Manifest{}
	}
	m.Valid = true
	return m
}

func readName(r *jsonwire.Reader, to *string) error {
	text, err := readString(r)
	if text != nil {
		*to = OneBlank(*text)
	}
	return err
}

// readString reads a string. It skips other values and returns nil.
func readString(r *jsonwire.Reader) (*string, error) {
	if r.Peek() != jsonwire.String {
		return nil, r.Skip()
	}
	s, err := r.String()
	return &s, err
}

// OneBlank returns a text in which each run of white space is replaced by one blank,
// without those at its ends.
func OneBlank(text string) string { return strings.Join(strings.Fields(text), " ") }
