package metrics

import (
	"os"
	"strconv"
	"syscall"
	"time"
)

// residentField is the index of rss in the result of fields: rss is field 24 of proc(5), and the
// first element of the result is field 3.
const residentField = 24 - 3

// addProcess adds the kernel's numbers about the process.
func (s *Set) addProcess() {
	s.Collect(KindCounter, "process_cpu_seconds_total", "Seconds of processor time, of users and of the system.", nil, func(emit func(float64, ...string)) {
		var u syscall.Rusage
		if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
			emit((time.Duration(u.Utime.Nano()) + time.Duration(u.Stime.Nano())).Seconds())
		}
	})
	s.Collect(KindGauge, "process_resident_memory_bytes", "Bytes of memory that the process has resident.", nil, func(emit func(float64, ...string)) {
		stat, err := os.ReadFile("/proc/self/stat")
		if err != nil {
			return
		}
		if f := fields(string(stat)); len(f) > residentField {
			if pages, err := strconv.ParseUint(f[residentField], 10, 64); err == nil {
				emit(float64(pages) * float64(os.Getpagesize()))
			}
		}
	})
	s.Collect(KindGauge, "process_open_fds", "Open file descriptors.", nil, func(emit func(float64, ...string)) {
		if names, err := os.ReadDir("/proc/self/fd"); err == nil {
			emit(float64(len(names) - 1)) // includes the descriptor of this look-up
		}
	})
	s.Collect(KindGauge, "process_max_fds", "Descriptors that may be open.", nil, func(emit func(float64, ...string)) {
		var limit syscall.Rlimit
		if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
			emit(float64(limit.Cur))
		}
	})
}
