package skills

import "codex.internal/pkg/wire/jsonwire"

// manifest is a plugin's manifest.
type manifest struct {
	name, display string
	servers, apps *string // paths of files beside it; nil: the default
	inline        bool    // the servers are in the manifest itself
	valid         bool    // the manifest is JSON
}

// parseManifest reads a manifest. Members of other types than expected are ignored. If the
// text is not JSON, the result is empty.
func parseManifest(text string) manifest {
	var m manifest
	r := jsonwire.NewReader([]byte(text))
	err := r.Object("a manifest", func(name []byte) (err error) {
		switch string(name) {
		case "name":
			err = readName(r, &m.name)
		case "interface":
			if r.Peek() != jsonwire.Object {
				return r.Skip()
			}
			return r.Object("an interface", func(name []byte) error {
				if string(name) == "displayName" {
					return readName(r, &m.display)
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
		return manifest{}
	}
	m.valid = true
	return m
}

func readName(r *jsonwire.Reader, to *string) error {
	text, err := readString(r)
	if text != nil {
		*to = oneBlank(*text)
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
