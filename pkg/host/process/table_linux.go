package process

import (
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// processTable lists the visible processes.
func processTable() []entry {
	table, _ := readTable(math.MaxInt)
	return table
}

// readTable lists the visible processes. If /proc has more than most entries, it reads none of them
// and returns false.
func readTable(most int) ([]entry, bool) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, false
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	if len(names) > most {
		return nil, false
	}
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
	return table, true
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
	e := entry{pid: pid, parent: parent, session: session, zombie: fields[0] == "Z" || fields[0] == "X"}
	if len(fields) > statResident {
		e.user = ticks(fields[statUser]) + ticks(fields[statUser+2])
		e.system = ticks(fields[statUser+1]) + ticks(fields[statUser+3])
		pages, _ := strconv.ParseUint(fields[statResident], 10, 64)
		e.resident = min(pages, math.MaxUint64/pageSize) * pageSize
	}
	return e, err1 == nil && err2 == nil
}

// These are the positions of fields in /proc/PID/stat, counted from the state: utime, which is
// followed by stime, cutime and cstime, and rss.
const (
	statUser     = 11
	statResident = 21
)

var pageSize = uint64(os.Getpagesize())

// ticks converts a time of /proc/PID/stat. Linux counts 100 ticks per second on all architectures
// for which this program is built.
func ticks(field string) time.Duration {
	const tick = time.Second / 100
	n, _ := strconv.ParseUint(field, 10, 64)
	return time.Duration(min(n, uint64(math.MaxInt64/tick/4))) * tick
}
