package skills

import "codex.internal/pkg/wire/jsonwire"

// named is what a manifest says about the files beside it.
type named struct {
	servers, apps *string // paths; nil: the default
	inline        bool    // the servers stand in the manifest
}

// parseManifest reads a manifest. One that is not JSON names nothing.
func parseManifest(text []byte) named {
	var n named
	r := jsonwire.NewReader(text)
	err := r.Object("a manifest", func(name []byte) (err error) {
		switch string(name) {
		case "mcpServers":
			if n.inline = r.Peek() == jsonwire.Object; n.inline {
				return r.Skip()
			}
			n.servers, err = pathMember(r)
		case "apps":
			n.apps, err = pathMember(r)
		default:
			err = r.Skip()
		}
		return err
	})
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return named{}
	}
	return n
}

// pathMember reads a string, or skips what is none.
func pathMember(r *jsonwire.Reader) (*string, error) {
	if r.Peek() != jsonwire.String {
		return nil, r.Skip()
	}
	s, err := r.String()
	return &s, err
}
