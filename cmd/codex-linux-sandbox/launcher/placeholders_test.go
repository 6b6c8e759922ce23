package launcher

import (
	"os"
	"os/exec"
	"testing"

	"codex.internal/pkg/sandbox/placeholders"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// TestNamesAfterTheEnd: the server is informed of the end of the command, the user creates files, and then the
// launcher is killed. The files stay, because the launcher has told its janitor before that nothing is left to remove.
func TestNamesAfterTheEnd(t *testing.T) {
	dir := t.TempDir()
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	ours, theirs, err := placeholders.JanitorPair()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(theirs)
	ended := make(chan error, 1)
	go func() { ended <- placeholders.RunJanitor(theirs) }()
	if err := placeholders.AwaitJanitor(ours); err != nil {
		t.Fatal(err)
	}
	connection, err := placeholders.ConnectJanitor(ours)
	if err != nil {
		t.Fatal(err)
	}
	l := &launch{
		janitor: &janitor{JanitorOf: placeholders.JanitorOf{FD: connection}, own: -1},
		plan:    &plan.Plan{Undo: []plan.UndoName{{Path: dir + "/.git", Dev: uint64(st.Dev), Ino: st.Ino}}},
	}
	s := &supervisor{l: l}
	if s.placeholders, err = l.makePlaceholders(true); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("true")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.placeholders.commit(command.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := s.placeholders.awaitJanitor(); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Fatal(err)
	}
	if code := s.cleanUp(0); code != 0 {
		t.Errorf("the code is %d", code)
	}
	if err := os.Mkdir(dir+"/.git", 0o755); err != nil {
		t.Fatal(err)
	}
	if s.placeholders.janitor != nil { // closing has the same effect as the launcher's end
		_ = unix.Close(connection)
	}
	_ = unix.Close(ours)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir + "/.git"); err != nil {
		t.Error(err)
	}
}
