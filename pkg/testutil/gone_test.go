package testutil

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func TestGone(t *testing.T) {
	if stat, gone := Gone(os.Getpid()); gone {
		t.Errorf("this process is gone: %s", stat)
	}
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if stat, gone := Gone(child.Process.Pid); gone {
		t.Errorf("a child that runs is gone: %s", stat)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	Eventually(t.Context(), t, "the end of the child", func() (string, bool) { return Gone(child.Process.Pid) })
	if err := child.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("signal 0 does not reach a child that was not waited for: %v", err)
	}
	_ = child.Wait()
	if stat, gone := Gone(child.Process.Pid); !gone {
		t.Errorf("a child that was waited for is there: %s", stat)
	}
}
