package testutil

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// TestWriteProgram: a written program can be executed at once, while others start
// processes.
func TestWriteProgram(t *testing.T) {
	var done atomic.Bool
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for !done.Load() {
				if err := exec.Command("true").Run(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	dir := t.TempDir()
	for i := range 100 {
		program := filepath.Join(dir, fmt.Sprint(i))
		if err := WriteProgram(program, []byte("#!/bin/sh\n")); err != nil {
			t.Fatal(err)
		}
		if err := exec.Command(program).Run(); err != nil {
			t.Errorf("program %d: %v", i, err)
		}
	}
	done.Store(true)
	others.Wait()
}
