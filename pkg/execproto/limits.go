package execproto

// ProcessLimits bound what a process and its descendants may use (extension
// process/limits, docs/spec/wire.md §4.11). 0 is no limit.
type ProcessLimits struct {
	// MemoryBytes bounds the memory of all of them together, SwapBytes how much of it
	// may be swapped out besides; without MemoryBytes it has no effect.
	MemoryBytes, SwapBytes uint64
	// PIDs bounds how many processes and threads there may be at a time.
	PIDs uint64
	// CPUMillis bounds the processors that they use at a time, in thousandths of one.
	CPUMillis uint64
	// CPUSeconds bounds the processor time that they use in all.
	CPUSeconds uint64
	// WallMS is how many milliseconds after the start they are killed.
	WallMS uint64
	// OutputBytes bounds the output in all. What exceeds it is dropped.
	OutputBytes uint64
	// FileBytes bounds the size of each file that one of them writes, OpenFiles the
	// descriptors that each of them may have.
	FileBytes, OpenFiles uint64
	// Require refuses the start if one of these limits cannot be held, or not for all descendants.
	Require bool
}

func (p *ProcessLimits) fields(c *codec) {
	uint64s(c, "memoryBytes", orNull|omit, &p.MemoryBytes)
	uint64s(c, "swapBytes", orNull|omit, &p.SwapBytes)
	uint64s(c, "pids", orNull|omit, &p.PIDs)
	uint64s(c, "cpuMillis", orNull|omit, &p.CPUMillis)
	uint64s(c, "cpuSeconds", orNull|omit, &p.CPUSeconds)
	uint64s(c, "wallMs", orNull|omit, &p.WallMS)
	uint64s(c, "outputBytes", orNull|omit, &p.OutputBytes)
	uint64s(c, "fileBytes", orNull|omit, &p.FileBytes)
	uint64s(c, "openFiles", orNull|omit, &p.OpenFiles)
	boolean(c, "require", orNull|omit, &p.Require)
}

// What holds a limit, in HeldLimit.By.
const (
	// HeldByCgroup: the kernel holds it for the process and its descendants together.
	HeldByCgroup = "cgroup"
	// HeldByRlimit: the kernel holds it for each of them alone.
	HeldByRlimit = "rlimit"
	// HeldByServer: the server measures, and kills them when it is exceeded.
	HeldByServer = "server"
	// HeldByNone: nothing holds it; HeldLimit.Reason says why.
	HeldByNone = "none"
)

// HeldLimit is one limit of a started process. Value is at most what was asked for:
// the server may have a lower limit of its own.
type HeldLimit struct {
	Name   string // of the member of ProcessLimits
	Value  uint64
	By     string
	Reason string // if By is HeldByNone; and of HeldByServer, if some descendants are not found
}

func (p *HeldLimit) fields(c *codec) {
	text(c, "name", need, &p.Name)
	uint64s(c, "value", need, &p.Value)
	text(c, "by", need, &p.By)
	text(c, "reason", orNull|omit, &p.Reason)
}

// Cause is why a process has ended (docs/spec/wire.md §4.11).
type Cause string

// The causes. Servers of codex itself tell none.
const (
	CauseExit          Cause = "exit"
	CauseSignal        Cause = "signal"
	CauseTimeout       Cause = "timeout"       // ProcessLimits.WallMS
	CauseMemory        Cause = "memory"        // killed by the kernel at ProcessLimits.MemoryBytes
	CausePIDs          Cause = "pids"          // failed after it could start no more processes
	CauseCPU           Cause = "cpu"           // ProcessLimits.CPUSeconds
	CauseOutput        Cause = "output"        // ProcessLimits.OutputBytes
	CauseTerminated    Cause = "terminated"    // process/terminate
	CauseSessionEnded  Cause = "sessionEnded"  // the session was not resumed in time
	CauseServerStopped Cause = "serverStopped" // the server was stopped
)

// ProcessResources are what a process has used with those of its descendants that it
// has waited for. With a cgroup they are those of all descendants.
type ProcessResources struct {
	WallMS, UserMS, SystemMS uint64
	// MaxRSSBytes is the most memory that one process had, as the system counts it. It
	// includes what the server itself had when it started the process.
	MaxRSSBytes uint64
	// PeakMemoryBytes is the most memory that all of them had at a time, and Processes
	// the most processes and threads; only with a cgroup that has the controller.
	PeakMemoryBytes *uint64
	// IOReadBytes and IOWriteBytes are what was read from storage and written to it.
	IOReadBytes, IOWriteBytes *uint64
	Processes                 *uint64
}

func (p *ProcessResources) fields(c *codec) {
	uint64s(c, "wallMs", orNull, &p.WallMS)
	uint64s(c, "userMs", orNull, &p.UserMS)
	uint64s(c, "systemMs", orNull, &p.SystemMS)
	uint64s(c, "maxRssBytes", orNull, &p.MaxRSSBytes)
	optional(c, "peakMemoryBytes", orNull|omit, &p.PeakMemoryBytes, uint64Value)
	optional(c, "ioReadBytes", orNull|omit, &p.IOReadBytes, uint64Value)
	optional(c, "ioWriteBytes", orNull|omit, &p.IOWriteBytes, uint64Value)
	optional(c, "processes", orNull|omit, &p.Processes, uint64Value)
}
