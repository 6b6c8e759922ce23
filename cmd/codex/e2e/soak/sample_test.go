package soak

import (
	"errors"
	"fmt"
	"strings"

	"codex.internal/cmd/codex/e2e/harness"
)

// quantity is one of the measured quantities.
type quantity int

const (
	memory quantity = iota
	heap
	descriptors
	goroutines
	threads
	processes
	namespaces
	cgroups
	mounts
	temporaryFiles
	connections
	sessions
	tunnels
	turnRate
	quantities // the number of quantities
)

// kind describes a quantity.
type kind struct {
	name  string // the name in the CSV file
	title string // the title in the table
	// atRest, part and more say how much more may exist at the final rest than after the first minute: a
	// relative and an absolute tolerance, each with a reason. A quantity without a reason is not judged.
	part, more float64
	reason     string
	// underLoad is the permitted growth from the first to the last tenth of the load, as a factor
	// of the median; 0: not judged.
	underLoad, moreLoad float64
}

var kinds = [quantities]kind{
	memory: {"memory_mib", "Resident memory of the server, MiB", 0.25, 6,
		"the Go runtime returns memory in steps, and keeps spans that are in use in part", 1.25, 16},
	heap: {"heap_mib", "Live heap and garbage, MiB", 0.25, 2,
		"measured after a collection; maps that have grown keep their size", 0, 0},
	descriptors: {"descriptors", "Descriptors of the server", 0, 0, "at rest it has listeners, launchers and its watchdog open", 1.25, 50},
	goroutines:  {"goroutines", "Goroutines of the server", 0, 0, "at rest it has its listeners, launchers and timers", 1.25, 50},
	threads: {"threads", "Threads of the server", 0, 24,
		"the Go runtime never ends threads; there are as many as calls have blocked at a time", 0, 0},
	processes: {"processes", "Processes of the server and its commands", 0, 0,
		"at rest there are the server, its watchdog and the launchers that wait", 1.5, 50},
	namespaces:     {"mount_namespaces", "Mount namespaces of sandboxes", 0, 0, "at rest there is none but those of the launchers that wait", 0, 0},
	cgroups:        {"cgroups", "Cgroups", 0, 0, "at rest there are those of the server and of the launchers that wait", 1.5, 50},
	mounts:         {"mounts", "Mounts that the server sees", 0, 0, "sandboxes mount in their own namespaces", 1, 0},
	temporaryFiles: {"files", "Temporary files and placeholders", 0, 0, "every file is removed by what has made it", 1.5, 50},
	connections:    {"connections", "Connections", 0, 0, "all are closed", 0, 0},
	sessions:       {"sessions", "Sessions, with lost ones", 0, 0, "all have ended", 1.25, 20},
	tunnels:        {"tunnels", "Tunnels", 0, 0, "all have ended", 0, 0},
	turnRate:       {name: "turns_per_second", title: "Turns a second"},
}

// sample contains the values of all quantities at one time.
type sample struct {
	seconds float64
	phase   string
	values  [quantities]float64
	err     error // the reason why no measurement was possible

	// The counted items, so that the test can print leftover ones.
	processes   []harness.Process
	files       []string
	descriptors []string
}

// csvHead returns the first line of the CSV file.
func csvHead() string {
	names := []string{"seconds", "phase"}
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return strings.Join(names, ",")
}

func (s sample) csv() string {
	fields := []string{fmt.Sprintf("%.1f", s.seconds), s.phase}
	for _, v := range s.values {
		fields = append(fields, fmt.Sprintf("%.6g", v))
	}
	return strings.Join(fields, ",")
}

func (s sample) String() string {
	if s.err != nil {
		return s.err.Error()
	}
	var parts []string
	for q, v := range s.values {
		if quantity(q) != turnRate {
			parts = append(parts, fmt.Sprintf("%s %.4g", kinds[q].name, v))
		}
	}
	return strings.Join(parts, ", ")
}

// idle returns an error if the server still has clients or resources of clients.
func (s sample) idle() error {
	if s.err != nil {
		return s.err
	}
	var errs []error
	for _, q := range []quantity{connections, sessions, tunnels, temporaryFiles} {
		if s.values[q] > 0 {
			errs = append(errs, fmt.Errorf("%s: %v are left", kinds[q].name, s.values[q]))
		}
	}
	if n := s.values[processes]; n > mostIdleProcesses {
		errs = append(errs, fmt.Errorf("%v processes are left", n))
	}
	return errors.Join(errs...)
}

// mostIdleProcesses is the maximum number of processes of a server at rest: itself, its watchdog,
// and two idle launchers, each of which may have a helper of its backend.
const mostIdleProcesses = 6

// more returns an error if a quantity exceeds its value in before by more than its tolerance.
func (s sample) more(before sample) error {
	var errs []error
	for q, k := range kinds {
		most := before.values[q]*(1+k.part) + k.more
		if k.reason != "" && s.values[q] > most {
			errs = append(errs, fmt.Errorf("%s: %.4g after the first minute, %.4g in the end, at most %.4g is tolerated",
				k.name, before.values[q], s.values[q], most))
		}
	}
	return errors.Join(errs...)
}
