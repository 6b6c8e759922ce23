package transparent

import (
	"bytes"
	"testing"
)

// FuzzDecode: an accepted message is encoded to the same bytes.
func FuzzDecode(f *testing.F) {
	f.Add(Message{Kind: Names}.Append(nil))
	f.Add(Message{Kind: Connection, Address: [16]byte{15: 1}, Port: 443}.Append(nil))
	f.Add([]byte{3, 18: 0})
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if (err == nil) != (len(b) == Size && (b[0] == 1 || b[0] == 2)) {
			t.Fatalf("%x: got error %v, want one unless it is a message of version 1 or 2", b, err)
		}
		if err == nil && !bytes.Equal(m.Append(nil), b) {
			t.Errorf("%x became %x", b, m.Append(nil))
		}
	})
}
