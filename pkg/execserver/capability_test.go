package execserver

import (
	"os"
	"testing"

	"codex.internal/pkg/execproto"
)

// rootObject returns a root with one skill, named like its directory.
func rootObject(t *testing.T, dir, name string, more ...object) object {
	t.Helper()
	if err := os.MkdirAll(dir+"/"+name, 0o700); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, dir+"/"+name+"/SKILL.md", []byte(name))
	root := object{"id": "same", "path": uri(dir, name)}
	for _, o := range more {
		for k, v := range o {
			root[k] = v
		}
	}
	return root
}

// TestRootsKeepTheirPlaces: roots with equal sandboxes are examined together, but the answer
// has them in the order of the request.
func TestRootsKeepTheirPlaces(t *testing.T) {
	_, url := newTestServer(t, Options{})
	p, _ := hello(t, url)
	dir := t.TempDir()
	open := func(kind string) object { return object{"sandbox": object{"permissions": object{"type": kind}}} }
	roots := []object{
		rootObject(t, dir, "a"), rootObject(t, dir, "b", open("disabled")), rootObject(t, dir, "c"),
		rootObject(t, dir, "d", open("disabled")), rootObject(t, dir, "e", object{"sandbox": nil}),
	}
	var found struct {
		Roots []struct {
			ID, Path string
			Skills   []struct{ Instructions struct{ Contents string } }
		}
	}
	p.call(execproto.MethodCapabilityRootsDiscover, object{"roots": roots}, &found)
	if len(found.Roots) != len(roots) {
		t.Fatalf("got %+v", found)
	}
	for i, r := range found.Roots {
		name := string(rune('a' + i))
		if r.ID != "same" || r.Path != uri(dir, name) || len(r.Skills) != 1 || r.Skills[0].Instructions.Contents != name {
			t.Errorf("root %d: got %+v", i, r)
		}
	}
}

func TestRootsThatAreRefused(t *testing.T) {
	_, url := newTestServer(t, Options{})
	p, _ := hello(t, url)
	many := make([]object, execproto.MaxCapabilityRoots+1)
	for i := range many {
		many[i] = object{"id": "", "path": "/"}
	}
	p.refuse(execproto.MethodCapabilityRootsDiscover, object{"roots": many}, -32600, "capability root discovery accepts at most 128 roots")
	good, bad := object{"id": "", "path": "/"}, object{"id": "", "path": "/", "sandbox": object{"permissions": 5}}
	for _, roots := range [][]object{{good, bad}, {good, {"id": "", "path": "relative"}}} {
		p.refuse(execproto.MethodCapabilityRootsDiscover, object{"roots": roots}, -32602, "")
	}
}
