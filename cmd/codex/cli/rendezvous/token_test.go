package rendezvous

import (
	"bytes"
	"testing"
	"time"

	"codex.internal/pkg/rendezvous"
)

func TestListOfTokens(t *testing.T) {
	now := time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)
	later := now.Add(time.Second)
	entry := func(id string, expires *time.Time) tokenEntry {
		return tokenEntry{ID: id, Role: rendezvous.RoleBoth, Environments: []string{"a", "b-*"}, Dir: "/d", MaxSandbox: "read-only", Created: now.Add(-time.Hour), Expires: expires}
	}
	var out bytes.Buffer
	err := listTokens(&out, "f", []tokenEntry{entry("1", nil), entry("2", &later), entry("3", &now)}, now)
	const want = `id  role  environments  cwd  sandbox    created               expires                         name
1   both  a b-*         /d   read-only  2026-11-22T05:00:00Z  never                           
2   both  a b-*         /d   read-only  2026-11-22T05:00:00Z  2026-11-22T06:00:01Z            
3   both  a b-*         /d   read-only  2026-11-22T05:00:00Z  2026-11-22T06:00:00Z (expired)  
`
	if err != nil || out.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out.String(), want)
	}
}
