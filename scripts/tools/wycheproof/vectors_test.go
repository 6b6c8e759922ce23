package wycheproof

import (
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"testing"

	"github.com/c2sp/wycheproof"
)

// octets are bytes that a vector contains as hexadecimal digits.
type octets []byte

func (o *octets) UnmarshalText(text []byte) (err error) {
	*o, err = hex.DecodeString(string(text))
	return err
}

// verdict is the expected result of a vector.
type verdict struct {
	ID      int      `json:"tcId"`
	Comment string   `json:"comment"`
	Result  string   `json:"result"` // "valid", "invalid" or "acceptable"
	Flags   []string `json:"flags"`
}

// read returns the groups of a file of vectors. G has a member for the tests.
func read[G any](t *testing.T, name string) []G {
	t.Helper()
	text, err := fs.ReadFile(wycheproof.TestVectors, name)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []G `json:"testGroups"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Groups
}

// enough fails a test that has used fewer vectors than the file has.
func enough(t *testing.T, seen, want int) {
	t.Helper()
	if seen < want {
		t.Errorf("%d vectors were tried, at least %d should have been", seen, want)
	}
}
