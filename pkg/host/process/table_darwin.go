package process

import "golang.org/x/sys/unix"

// stateZombie is SZOMB of sys/proc.h.
const stateZombie = 5

// processTable lists the processes that can be seen.
func processTable() []entry {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	table := make([]entry, 0, len(list))
	for i := range list {
		pid := int(list[i].Proc.P_pid)
		// A zombie has no session; callers ignore zombies.
		session, _ := unix.Getsid(pid)
		table = append(table, entry{
			pid: pid, parent: int(list[i].Eproc.Ppid), session: session, zombie: list[i].Proc.P_stat == stateZombie,
		})
	}
	return table
}
