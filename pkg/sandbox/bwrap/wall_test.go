package bwrap

import (
	"strings"
	"testing"

	"codex.internal/pkg/sandbox/plan"
)

func TestWallOfTheSecondStage(t *testing.T) {
	p := &plan.Plan{Mounts: []plan.Mount{
		{Kind: plan.BindWritable, Source: "/ws with, 1 2", Target: "/ws with, 1 2"},
		{Kind: plan.BindReadOnly, Source: "/dev/shm", Target: "/dev/shm"},
	}}
	text := string(AppendWall([]byte("rw 1 2 /ws\x00ro 3 4 /ws/.git\x001 2 /ws\x00"), p, false))
	for _, name := range []string{"/dev/null", "/dev/pts", "/proc"} {
		if !strings.Contains(text, " "+name+"\x00") {
			t.Errorf("%s is not among the view's own: %q", name, text)
		}
	}
	if strings.Contains(text, "/dev/shm") {
		t.Errorf("what the plan shows is granted as the view's own: %q", text)
	}
	if helper := string(AppendWall(nil, p, true)); strings.Contains(helper, "/dev") || strings.Contains(helper, "/proc") {
		t.Errorf("the helper is granted more than the plan: %q", helper)
	}
	// This test runs without a sandbox, so /dev and /proc are the host's.
	isProc := isOwnProc()
	for _, g := range ParseWall([]byte(text)) {
		if g.Path != "/ws with, 1 2" && !(isProc && g.Path == "/proc") || g.Path != "/proc" && g.Rights != plan.WallDirectory {
			t.Errorf("granted %+v", g)
		}
	}
}
