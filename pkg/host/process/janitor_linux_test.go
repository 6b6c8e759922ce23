package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// janitorEnv makes TestFreezeSparesJanitors a janitor.
const janitorEnv = "PROCESS_TEST_JANITOR"

// TestFreezeSparesJanitors: a janitor is not stopped and killed with the
// program whose traces it removes, also while that has not ended.
func TestFreezeSparesJanitors(t *testing.T) {
	if os.Getenv(janitorEnv) != "" {
		fmt.Println(os.Getpid())
		time.Sleep(time.Hour) // until it is killed
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), JanitorName)
	if err := os.Symlink(self, name); err != nil {
		t.Fatal(err)
	}
	cmd, output := session(t, fmt.Sprintf(
		"%s=1 %s -test.run '^TestFreezeSparesJanitors$' & sleep 1000", janitorEnv, name))
	var pid int
	if _, err := fmt.Fscan(output, &pid); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	spared := 0
	family := freeze(cmd.Process.Pid, func(pid int) bool {
		if isJanitor(pid) {
			spared = pid
		}
		return isJanitor(pid)
	})
	if !family[cmd.Process.Pid] || family[pid] || spared != pid {
		t.Errorf("the janitor %d: stopped %v, spared %d", pid, family, spared)
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if _, rest, _ := strings.Cut(string(stat), ") "); err != nil || strings.HasPrefix(rest, "T") {
		t.Errorf("the janitor is stopped: %q, %v", rest, err)
	}
	for member := range family {
		_ = syscall.Kill(member, syscall.SIGKILL)
	}
}
