package audit

import (
	"strings"
	"testing"
)

// TestMembersAreTold: a client chooses its name and its commands. Neither can look like further
// members of a line.
func TestMembersAreTold(t *testing.T) {
	e := Event{Kind: "k", Principal: "user 0", Client: "cli peer=192.0.2.7:443 principal=user 0 x", Thread: `"quoted"`, Process: "build-7", Argv: []string{"env", "A=1 host=x"}, Port: 7}
	var line strings.Builder
	for _, m := range e.Members() {
		line.WriteString(" " + m.Name + "=" + m.Value)
	}
	const want = ` principal="user 0" client="cli peer\x3d192.0.2.7:443 principal\x3duser 0 x" threadId="\"quoted\"" processId=build-7` +
		` argv=["env","A\u003d1 host\u003dx"] port=7`
	if line.String() != want {
		t.Errorf("got %s, want %s", &line, want)
	}
}
