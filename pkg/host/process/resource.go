package process

import (
	"fmt"
	"strings"
	"time"
)

// Limits bound the resources of a process and its descendants. 0 means no limit.
type Limits struct {
	Memory    uint64        // bytes of all of them together
	Swap      uint64        // bytes of swap in addition to Memory; without Memory it has no effect
	Processes uint64        // and threads, at a time
	CPUMillis uint64        // processors at a time, in thousandths of one
	CPUTime   time.Duration // of all of them, in whole seconds
	WallTime  time.Duration // since the start
	Output    uint64        // bytes that are delivered
	FileSize  uint64        // bytes of each file that one of them writes
	OpenFiles uint64        // descriptors of each of them
	// Require makes the start fail if one of the limits cannot be enforced for all descendants.
	Require bool
}

// These are the names of limits in Held.
const (
	LimitMemory    = "memory"
	LimitSwap      = "swap"
	LimitProcesses = "processes"
	LimitCPUMillis = "cpu"
	LimitCPUTime   = "cpu time"
	LimitWallTime  = "time"
	LimitOutput    = "output"
	LimitFileSize  = "file size"
	LimitOpenFiles = "open files"
)

// Holder is the mechanism that enforces a limit.
type Holder int

// These are the holders.
const (
	HeldByNone   Holder = iota
	HeldByCgroup        // the kernel, for all of them together
	HeldByRlimit        // the kernel, for each of them
	HeldByServer        // this program: it measures, and kills them all
)

// Held describes how a limit of a process is enforced.
type Held struct {
	Limit  string
	Value  uint64 // in the unit of Limits, but durations in nanoseconds
	By     Holder
	Reason string // of HeldByNone; and of HeldByServer, if some descendants are not found
}

// LimitError is the error of a start whose required limits cannot be enforced.
type LimitError struct{ Held []Held }

func (e *LimitError) Error() string {
	var parts, missing []string
	for _, h := range e.Held {
		switch {
		case h.By == HeldByNone:
			parts = append(parts, fmt.Sprintf("the limit of %s cannot be enforced: %s", h.Limit, h.Reason))
		case h.By == HeldByServer && h.Reason != "":
			missing = append(missing, h.Limit)
		}
	}
	if len(missing) > 0 {
		parts = append(parts, fmt.Sprintf("the limit of %s cannot be enforced for all descendants: %s: "+
			"run the command in a sandbox, or start the server where it may make cgroups", strings.Join(missing, " and of "), missesReason))
	}
	return strings.Join(parts, "; ")
}

// Cause is the reason why a process has ended.
type Cause int

// These are the causes. All but the first two, and except CausePIDs, mean that this program or the
// kernel has killed the process.
const (
	CauseExit Cause = iota
	CauseSignal
	CauseTimeout
	CauseMemory
	CausePIDs
	CauseCPU
	CauseOutput
	CauseTerminated
	CauseGroupClosed
	CauseSupervisorClosed
)

// Usage is the usage of a process, including the descendants that have been waited for. With a
// cgroup it includes all descendants. For a sandboxed process it includes the launcher, unless the
// launcher itself reported the process's end.
type Usage struct {
	Wall, User, System time.Duration
	// MaxRSS is the largest memory of a single process, in bytes. Linux includes the memory that
	// this program had at the time of the start, because a new process has this memory until it
	// executes its program.
	MaxRSS uint64
	// IORead and IOWritten are bytes of storage; nil if the system does not count them.
	IORead, IOWritten *uint64
	// PeakMemory and Processes are the highest values at any time; nil without a cgroup that counts
	// them.
	PeakMemory, Processes *uint64
}

// Exit is the end of a process.
type Exit struct {
	Code   int // status, 128+n after signal n, -1 when it is not known
	Denied bool
	Cause  Cause
	Usage  Usage
}
