package process

import (
	"os"
	"strconv"
	"strings"
)

// processTable lists the processes that can be seen.
func processTable() []entry {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	table := make([]entry, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		if e, ok := parseStat(pid, string(text)); ok {
			table = append(table, e)
		}
	}
	return table
}

// parseStat parses the text of /proc/PID/stat. The command name is in
// parentheses and may itself contain parentheses and line ends.
func parseStat(pid int, line string) (entry, bool) {
	i := strings.LastIndexByte(line, ')')
	if i < 0 {
		return entry{}, false
	}
	fields := strings.Fields(line[i+1:]) // state ppid pgrp session ...
	if len(fields) < 4 {
		return entry{}, false
	}
	parent, err1 := strconv.Atoi(fields[1])
	session, err2 := strconv.Atoi(fields[3])
	return entry{pid, parent, session, fields[0] == "Z" || fields[0] == "X"}, err1 == nil && err2 == nil
}
