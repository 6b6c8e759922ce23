package execproto

import "codex.internal/pkg/wire/jsonwire"

// ProcessLimits bound the resources of a process and its descendants (extension
// process/limits, docs/spec/wire.md §4.11). 0 means no limit.
type ProcessLimits struct {
	// MemoryBytes bounds the total memory of all of them. SwapBytes bounds the swap
	// space in addition to it; without MemoryBytes it has no effect.
	MemoryBytes, SwapBytes uint64
	// PIDs bounds the number of processes and threads at a time.
	PIDs uint64
	// CPUMillis bounds how many processors they use at a time, in thousandths of a processor.
	CPUMillis uint64
	// CPUSeconds bounds the total processor time that they use.
	CPUSeconds uint64
	// WallMS bounds the time since the start, in milliseconds; they are killed when it is over.
	WallMS uint64
	// OutputBytes bounds the total output. Further output is dropped.
	OutputBytes uint64
	// FileBytes bounds the size of each file that one of them writes, OpenFiles the
	// descriptors that each of them may have.
	FileBytes, OpenFiles uint64
	// Require refuses the start if one of these limits cannot be enforced, or not for all
	// descendants.
	Require bool
}

func (p *ProcessLimits) Fields(c *jsonwire.Codec) {
	c.Uint64("memoryBytes", orNull|omit, &p.MemoryBytes)
	c.Uint64("swapBytes", orNull|omit, &p.SwapBytes)
	c.Uint64("pids", orNull|omit, &p.PIDs)
	c.Uint64("cpuMillis", orNull|omit, &p.CPUMillis)
	c.Uint64("cpuSeconds", orNull|omit, &p.CPUSeconds)
	c.Uint64("wallMs", orNull|omit, &p.WallMS)
	c.Uint64("outputBytes", orNull|omit, &p.OutputBytes)
	c.Uint64("fileBytes", orNull|omit, &p.FileBytes)
	c.Uint64("openFiles", orNull|omit, &p.OpenFiles)
	c.Bool("require", orNull|omit, &p.Require)
}

// The values of HeldLimit.By: the mechanism that enforces a limit.
const (
	// HeldByCgroup: the kernel enforces it for the process and its descendants together.
	HeldByCgroup = "cgroup"
	// HeldByRlimit: the kernel enforces it for each of them separately.
	HeldByRlimit = "rlimit"
	// HeldByServer: the server measures, and kills them when it is exceeded.
	HeldByServer = "server"
	// HeldByNone: it is not enforced; HeldLimit.Reason gives the reason.
	HeldByNone = "none"
)

// HeldLimit is one limit of a started process. Value is at most the requested one,
// because the server may have a lower limit.
type HeldLimit struct {
	Name   string // the name of the member of ProcessLimits
	Value  uint64
	By     string
	Reason string // set with HeldByNone, and with HeldByServer if some descendants are not found
}

func (p *HeldLimit) Fields(c *jsonwire.Codec) {
	c.Text("name", need, &p.Name)
	c.Uint64("value", need, &p.Value)
	c.Text("by", need, &p.By)
	c.Text("reason", orNull|omit, &p.Reason)
}

// Cause is the reason why a process has ended (docs/spec/wire.md §4.11).
type Cause string

// The causes. Codex CLI's servers report none.
const (
	CauseExit          Cause = "exit"
	CauseSignal        Cause = "signal"
	CauseTimeout       Cause = "timeout"       // ProcessLimits.WallMS was reached
	CauseMemory        Cause = "memory"        // killed by the kernel at ProcessLimits.MemoryBytes
	CausePIDs          Cause = "pids"          // failed after it could not start further processes
	CauseCPU           Cause = "cpu"           // ProcessLimits.CPUSeconds was reached
	CauseOutput        Cause = "output"        // ProcessLimits.OutputBytes was reached
	CauseTerminated    Cause = "terminated"    // ended by process/terminate
	CauseSessionEnded  Cause = "sessionEnded"  // the session was not resumed in time
	CauseServerStopped Cause = "serverStopped" // the server was stopped
)

// ProcessResources is the resource usage of a process and of the descendants that it
// has waited for. With a cgroup, it includes all descendants.
type ProcessResources struct {
	WallMS, UserMS, SystemMS uint64
	// MaxRSSBytes is the peak memory of one process, as the system counts it. It
	// includes the memory that the server itself had when it started the process.
	MaxRSSBytes uint64
	// PeakMemoryBytes is the most memory that all of them had at a time, and Processes
	// the most processes and threads; only with a cgroup that has the controller.
	PeakMemoryBytes *uint64
	// IOReadBytes and IOWriteBytes are the bytes read from and written to storage.
	IOReadBytes, IOWriteBytes *uint64
	Processes                 *uint64
}

func (p *ProcessResources) Fields(c *jsonwire.Codec) {
	c.Uint64("wallMs", orNull, &p.WallMS)
	c.Uint64("userMs", orNull, &p.UserMS)
	c.Uint64("systemMs", orNull, &p.SystemMS)
	c.Uint64("maxRssBytes", orNull, &p.MaxRSSBytes)
	jsonwire.Optional(c, "peakMemoryBytes", orNull|omit, &p.PeakMemoryBytes, jsonwire.Uint64Value)
	jsonwire.Optional(c, "ioReadBytes", orNull|omit, &p.IOReadBytes, jsonwire.Uint64Value)
	jsonwire.Optional(c, "ioWriteBytes", orNull|omit, &p.IOWriteBytes, jsonwire.Uint64Value)
	jsonwire.Optional(c, "processes", orNull|omit, &p.Processes, jsonwire.Uint64Value)
}
