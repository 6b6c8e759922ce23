package limiter

import (
	"fmt"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// sandboxTasks is the number of processes and threads that one sandbox needs: the launcher has 6 to 9 threads, its janitor 5,
	// and the init and the command are two processes.
	sandboxTasks = 20
	// ownTasks is the number of them that exist when FreeTasks is called: the threads of this program.
	ownTasks = 5
	// manyTasks is the limit of tasks from which on they are not counted: looking at all processes would take longer than the start.
	manyTasks = 512
)

// FreeTasks returns an error if the limit of the user's processes (RLIMIT_NPROC) leaves too few for a sandbox. It is called before
// anything else: the Go runtime ends the program with a trace if it gets no thread. The kernel does not apply the limit to root.
func FreeTasks() error {
	var limit unix.Rlimit
	if os.Geteuid() == 0 || unix.Getrlimit(unix.RLIMIT_NPROC, &limit) != nil {
		return nil
	}
	return freeTasks(limit.Cur, func() int { return tasksOf(os.Getuid()) })
}

// freeTasks is FreeTasks for a limit, with count in place of the machine.
func freeTasks(limit uint64, count func() int) error {
	if limit >= manyTasks || limit >= sandboxTasks && uint64(count()+sandboxTasks-ownTasks) <= limit {
		return nil
	}
	return fmt.Errorf("too many processes: this user may have %d processes and threads (ulimit -u), and a sandbox needs %d besides the others: "+
		"end some, or raise the limit: %w", limit, sandboxTasks, unix.EAGAIN)
}

// tasksOf counts the processes and threads of a user, including this process. If it cannot, it returns 0.
func tasksOf(uid int) (count int) {
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, p := range processes {
		var st unix.Stat_t
		if n, err := strconv.Atoi(p.Name()); err != nil || n > math.MaxInt32 || unix.Stat("/proc/"+p.Name()+"/task", &st) != nil {
			continue
		}
		if int(st.Uid) == uid {
			count += int(st.Nlink) - 2 // each thread is a directory in it
		}
	}
	return count
}
