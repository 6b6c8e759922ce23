package execserver

import (
	"errors"
	"syscall"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/host/process"
)

// limitNames are the names of the limits in the protocol.
var limitNames = map[string]string{
	process.LimitMemory: "memoryBytes", process.LimitSwap: "swapBytes", process.LimitProcesses: "pids",
	process.LimitCPUMillis: "cpuMillis", process.LimitCPUTime: "cpuSeconds", process.LimitWallTime: "wallMs",
	process.LimitOutput: "outputBytes", process.LimitFileSize: "fileBytes", process.LimitOpenFiles: "openFiles",
}

// holders are the names of the mechanisms that enforce limits.
var holders = [...]string{
	process.HeldByNone: execproto.HeldByNone, process.HeldByCgroup: execproto.HeldByCgroup,
	process.HeldByRlimit: execproto.HeldByRlimit, process.HeldByServer: execproto.HeldByServer,
}

// causes are the names of the reasons why a process has ended.
var causes = [...]execproto.Cause{
	process.CauseExit: execproto.CauseExit, process.CauseSignal: execproto.CauseSignal,
	process.CauseTimeout: execproto.CauseTimeout, process.CauseMemory: execproto.CauseMemory,
	process.CausePIDs: execproto.CausePIDs, process.CauseCPU: execproto.CauseCPU,
	process.CauseOutput: execproto.CauseOutput, process.CauseTerminated: execproto.CauseTerminated,
	process.CauseGroupClosed: execproto.CauseSessionEnded, process.CauseSupervisorClosed: execproto.CauseServerStopped,
}

// limits returns the limits of a process: the requested limits, reduced to those of the server
// and of the client's ceiling (docs/spec/wire.md §4.11).
func (srv *Server) limits(wanted *execproto.ProcessLimits, ceiling *wsauth.Limits) process.Limits {
	own := lowest(srv.rules.Load().Limits, execproto.ProcessLimits(*ceiling))
	if wanted == nil {
		wanted = &execproto.ProcessLimits{SwapBytes: own.SwapBytes}
	}
	swap := wanted.SwapBytes
	if own.MemoryBytes > 0 {
		swap = min(swap, own.SwapBytes)
	}
	return process.Limits{
		Memory: lower(wanted.MemoryBytes, own.MemoryBytes), Swap: swap,
		Processes: lower(wanted.PIDs, own.PIDs), CPUMillis: lower(wanted.CPUMillis, own.CPUMillis),
		CPUTime:  duration(lower(wanted.CPUSeconds, own.CPUSeconds), time.Second),
		WallTime: duration(lower(wanted.WallMS, own.WallMS), time.Millisecond),
		Output:   lower(wanted.OutputBytes, own.OutputBytes), FileSize: lower(wanted.FileBytes, own.FileBytes),
		OpenFiles: lower(wanted.OpenFiles, own.OpenFiles),
		Require:   wanted.Require || own.Require,
	}
}

// lowest returns the lower value of each limit in two groups.
func lowest(a, b execproto.ProcessLimits) execproto.ProcessLimits {
	swap := min(a.SwapBytes, b.SwapBytes)
	switch {
	case a.MemoryBytes == 0:
		swap = b.SwapBytes
	case b.MemoryBytes == 0:
		swap = a.SwapBytes
	}
	return execproto.ProcessLimits{
		MemoryBytes: lower(a.MemoryBytes, b.MemoryBytes), SwapBytes: swap, PIDs: lower(a.PIDs, b.PIDs),
		CPUMillis: lower(a.CPUMillis, b.CPUMillis), CPUSeconds: lower(a.CPUSeconds, b.CPUSeconds), WallMS: lower(a.WallMS, b.WallMS),
		OutputBytes: lower(a.OutputBytes, b.OutputBytes), FileBytes: lower(a.FileBytes, b.FileBytes), OpenFiles: lower(a.OpenFiles, b.OpenFiles),
		Require: a.Require || b.Require,
	}
}

// lower returns the lower of two limits; 0 means no limit.
func lower(wanted, own uint64) uint64 {
	if wanted == 0 || own != 0 && own < wanted {
		return own
	}
	return wanted
}

// duration returns n units, but at most maxLimitTime.
func duration(n uint64, unit time.Duration) time.Duration {
	return time.Duration(min(n, uint64(maxLimitTime/unit))) * unit
}

// unenforcedLimit is the message of a record that is repeated with each process where this machine has no cgroups.
const unenforcedLimit = "a limit of a process is not enforced"

// held returns how each limit of a process is enforced, if the client has set limits.
func (st *start) held() []execproto.HeldLimit {
	held := st.running.Held()
	for _, h := range held {
		if h.By == process.HeldByNone {
			st.p.seen.Log.Warn(unenforcedLimit, "limit", h.Limit, "reason", h.Reason)
		}
	}
	if !st.asksHeld {
		return nil
	}
	list := make([]execproto.HeldLimit, len(held))
	for i, h := range held {
		value := h.Value
		switch h.Limit {
		case process.LimitCPUTime:
			value /= uint64(time.Second)
		case process.LimitWallTime:
			value /= uint64(time.Millisecond)
		}
		list[i] = execproto.HeldLimit{Name: limitNames[h.Limit], Value: value, By: holders[h.By], Reason: h.Reason}
	}
	return list
}

// startError returns the answer to a request whose process could not be started.
func startError(err error) error {
	if _, ok := errors.AsType[*process.LimitError](err); ok {
		return execproto.InvalidParams(err.Error())
	}
	if _, ok := errors.AsType[*process.ShortageError](err); ok {
		return observe.AtLimit(observe.LimitMachine, execproto.SpawnFailed.Answer(execproto.CodeInternal, err.Error()))
	}
	if kind := spawnFailure(err); kind != "" {
		return kind.Answer(execproto.CodeInternal, err.Error())
	}
	return err
}

// spawnFailure returns why a program could not be executed, or "" for any other error.
func spawnFailure(err error) execproto.StartFailure {
	spawn, failed := errors.AsType[*process.SpawnError](err)
	switch {
	case failed && spawn.Errno == syscall.ENOENT:
		return execproto.SpawnNotFound
	case failed && spawn.Errno == syscall.EACCES:
		return execproto.SpawnPermissionDenied
	case failed, errors.Is(err, process.ErrNUL), errors.Is(err, process.ErrNoProgram):
		return execproto.SpawnFailed
	default:
		return ""
	}
}

// resources returns the usage of a process.
func resources(u *process.Usage) *execproto.ProcessResources {
	return &execproto.ProcessResources{
		WallMS: uint64(u.Wall.Milliseconds()), UserMS: uint64(u.User.Milliseconds()), SystemMS: uint64(u.System.Milliseconds()),
		MaxRSSBytes: u.MaxRSS, PeakMemoryBytes: u.PeakMemory, IOReadBytes: u.IORead, IOWriteBytes: u.IOWritten, Processes: u.Processes,
	}
}
