package testutil

import (
	"fmt"
	"os"
	"strings"
)

// Gone reports whether a Linux process has ended, and its state in /proc. A zombie counts as
// gone. Signal 0 cannot be used for this, because it also reaches a zombie.
func Gone(pid int) (stat string, gone bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return err.Error(), true
	}
	stat = string(text)
	// The name of the program, in parentheses, may have any characters.
	state := stat[strings.LastIndexByte(stat, ')')+1:]
	return stat, strings.HasPrefix(state, " Z ") || strings.HasPrefix(state, " X ")
}
