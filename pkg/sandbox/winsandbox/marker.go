package winsandbox

import (
	"encoding/json"
	"errors"
	"fmt"
)

// SetupVersion is the version of the set-up that this package supports.
const SetupVersion = 5

// Marker is the content of the file that a set-up writes. It records for which settings the set-up
// was made.
type Marker struct {
	Version           uint32   `json:"version"`
	OfflineUsername   string   `json:"offline_username"`
	OnlineUsername    string   `json:"online_username"`
	CreatedAt         *string  `json:"created_at"` // null: not known
	ProxyPorts        []uint16 `json:"proxy_ports"`
	AllowLocalBinding bool     `json:"allow_local_binding"`
}

// DecodeMarker reads a marker file. A broken file must be treated like a
// missing one: the set-up is repeated.
func DecodeMarker(text []byte) (*Marker, error) {
	required := struct {
		Version         *json.RawMessage `json:"version"`
		OfflineUsername *json.RawMessage `json:"offline_username"`
		OnlineUsername  *json.RawMessage `json:"online_username"`
	}{}
	m := new(Marker)
	err := json.Unmarshal(text, &required)
	if err == nil && (required.Version == nil || required.OfflineUsername == nil || required.OnlineUsername == nil) {
		err = errors.New("version or user names are missing")
	}
	if err == nil {
		err = json.Unmarshal(text, m)
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox setup marker: %w", err)
	}
	return m, nil
}

// Encode returns the contents of the marker file.
func (m Marker) Encode() ([]byte, error) {
	if m.ProxyPorts == nil {
		m.ProxyPorts = []uint16{}
	}
	return json.Marshal(m)
}

// Current reports whether there is a marker of the current version.
func (m *Marker) Current() bool { return m != nil && m.Version == SetupVersion }

// Settings are the firewall rules that the set-up made.
func (m *Marker) Settings() ProxySettings {
	return ProxySettings{Ports: m.ProxyPorts, AllowLocalBinding: m.AllowLocalBinding}
}
