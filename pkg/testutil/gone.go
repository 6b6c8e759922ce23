package testutil

import (
	"fmt"
	"os"
	"strings"
)

// Gone reports whether a process of Linux has ended, and what the kernel says of it. A child that
// was not waited for counts as gone. Signal 0 cannot show that: it reaches such a child, too.
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
