// Package metrics counts events and durations, and writes them in the text format of Prometheus
// (version 0.0.4), with HELP and TYPE lines. All services of this module use it.
//
// A Set has families, each with a name, a help text and the names of its labels. A family has one
// metric for each combination of label values. Changing a metric takes one or two atomic
// operations. Finding a metric by its label values takes a lock, so code that runs often should
// keep the metric. Label values must come from small fixed sets. They must not be ids, paths or
// commands.
package metrics

import (
	"bufio"
	"cmp"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// ContentType is the HTTP content type of the output of Write.
	ContentType = "text/plain; version=0.0.4; charset=utf-8"

	// maxSeries bounds the metrics of one family. If the values of a label come from a peer by
	// mistake, they must not fill the memory. Further label values are counted under overflow.
	maxSeries = 1024
	overflow  = "other"
	// usualLabels is the size of most metrics' labels, in bytes.
	usualLabels = 64
)

// DurationBuckets are the upper bounds of the buckets of histograms, in seconds. They range from a
// request that is answered from memory to a command that runs for ten minutes.
var DurationBuckets = [...]float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 2.5, 10, 60, 600}

// Set is the metrics of one service. Its methods may be called from any goroutine.
type Set struct {
	mu       sync.Mutex
	families []writer
}

// writer writes a family.
type writer interface {
	familyName() string
	write(w *bufio.Writer)
}

// NewSet returns a set without metrics.
func NewSet() *Set { return &Set{} }

func (s *Set) add(f writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.families = append(s.families, f)
}

// Write writes all families in the order of their names. It returns the error of w.
func (s *Set) Write(w io.Writer) error {
	s.mu.Lock()
	families := slices.Clone(s.families)
	s.mu.Unlock()
	slices.SortStableFunc(families, func(a, b writer) int { return strings.Compare(a.familyName(), b.familyName()) })
	b := bufio.NewWriter(w)
	for _, f := range families {
		f.write(b)
	}
	return b.Flush()
}

// head is the common part of a family's metrics.
type head struct {
	name, help, kind string
	labels           []string
}

func (h *head) familyName() string { return h.name }

var escapeHelp = strings.NewReplacer(`\`, `\\`, "\n", `\n`)

func (h *head) write(w *bufio.Writer) {
	_, _ = w.WriteString("# HELP " + h.name + " " + escapeHelp.Replace(h.help) + "\n# TYPE " + h.name + " " + h.kind + "\n")
}

var escapeValue = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// labelText returns the labels of a metric in the text format, without braces.
func (h *head) labelText(values []string) string {
	if len(values) != len(h.labels) {
		panic("metrics: " + h.name + " needs as many label values as it has labels")
	}
	b := make([]byte, 0, usualLabels)
	for i, value := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, h.labels[i]...), `="`...)
		b = append(append(b, escapeValue.Replace(strings.ToValidUTF8(value, "\uFFFD"))...), '"')
	}
	return string(b)
}

// line writes one sample. labels may be empty.
func line(w *bufio.Writer, name, labels string, value float64) {
	_, _ = w.WriteString(name)
	if labels != "" {
		_, _ = w.WriteString("{" + labels + "}")
	}
	_, _ = w.WriteString(" " + number(value) + "\n")
}

func number(value float64) string {
	switch {
	case math.IsInf(value, 1):
		return "+Inf"
	case value == math.Trunc(value) && math.Abs(value) < 1<<53:
		return strconv.FormatInt(int64(value), 10)
	default:
		return strconv.FormatFloat(value, 'g', -1, 64)
	}
}

// metric is one metric of a family.
type metric interface {
	write(w *bufio.Writer, name, labels string)
}

// Family is a set of metrics with one name, which differ in the values of their labels.
type Family[M metric] struct {
	head
	make func() M

	mu     sync.RWMutex
	series map[string]M // by labelText
	one    map[string]M // the metrics of a family with one label, by its value
}

// With returns the metric with these label values, in the order of the family's labels. After the
// first call, the metric is included in the output.
func (f *Family[M]) With(values ...string) M {
	if len(values) == 1 {
		f.mu.RLock()
		m, ok := f.one[values[0]]
		f.mu.RUnlock()
		if ok {
			return m
		}
	}
	key := f.labelText(values)
	f.mu.RLock()
	m, ok := f.series[key]
	f.mu.RUnlock()
	if ok {
		return m
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if m, ok = f.series[key]; ok {
		return m
	}
	if len(f.series) >= maxSeries {
		others := make([]string, len(values))
		for i := range others {
			others[i] = overflow
		}
		key = f.labelText(others)
		if m, ok = f.series[key]; ok {
			return m
		}
	}
	m = f.make()
	f.series[key] = m
	if len(values) == 1 && values[0] != overflow {
		f.one[values[0]] = m
	}
	return m
}

func (f *Family[M]) write(w *bufio.Writer) {
	f.mu.RLock()
	all := maps.Clone(f.series)
	f.mu.RUnlock()
	f.head.write(w)
	for _, labels := range slices.Sorted(maps.Keys(all)) {
		all[labels].write(w, f.name, labels)
	}
}

func family[M metric](s *Set, kind, name, help string, labels []string, create func() M) *Family[M] {
	f := &Family[M]{head: head{name, help, kind, labels}, make: create, series: make(map[string]M), one: make(map[string]M)}
	s.add(f)
	return f
}

// Counters adds a family of counters.
func (s *Set) Counters(name, help string, labels ...string) *Family[*Counter] {
	return family(s, "counter", name, help, labels, func() *Counter { return &Counter{} })
}

// Counter adds a counter without labels.
func (s *Set) Counter(name, help string) *Counter { return s.Counters(name, help).With() }

// Gauges adds a family of gauges.
func (s *Set) Gauges(name, help string, labels ...string) *Family[*Gauge] {
	return family(s, "gauge", name, help, labels, func() *Gauge { return &Gauge{} })
}

// Gauge adds a gauge without labels.
func (s *Set) Gauge(name, help string) *Gauge { return s.Gauges(name, help).With() }

// Histograms adds a family of histograms of durations, with DurationBuckets.
func (s *Set) Histograms(name, help string, labels ...string) *Family[*Histogram] {
	return family(s, "histogram", name, help, labels, func() *Histogram { return &Histogram{} })
}

// Histogram adds a histogram without labels.
func (s *Set) Histogram(name, help string) *Histogram { return s.Histograms(name, help).With() }

// Counter counts events. Its methods may be called from any goroutine.
type Counter struct{ n atomic.Uint64 }

// Inc adds one.
func (c *Counter) Inc() { c.n.Add(1) }

// Add adds n, which must not be negative.
func (c *Counter) Add(n int) { c.n.Add(uint64(n)) }

// Get returns the count.
func (c *Counter) Get() uint64 { return c.n.Load() }

func (c *Counter) write(w *bufio.Writer, name, labels string) {
	line(w, name, labels, float64(c.n.Load()))
}

// Gauge is a number that goes up and down. Its methods may be called from any
// goroutine.
type Gauge struct{ n atomic.Int64 }

// Add adds n, which may be negative.
func (g *Gauge) Add(n int) { g.n.Add(int64(n)) }

// Get returns the number.
func (g *Gauge) Get() int64 { return g.n.Load() }

func (g *Gauge) write(w *bufio.Writer, name, labels string) {
	line(w, name, labels, float64(g.n.Load()))
}

// Histogram counts durations in buckets. Its methods may be called from any goroutine.
type Histogram struct {
	counts [len(DurationBuckets) + 1]atomic.Uint64 // the last is for values above all bounds
	sum    atomic.Int64                            // nanoseconds: 292 years
}

// Observe counts a duration.
func (h *Histogram) Observe(d time.Duration) {
	i, _ := slices.BinarySearch(DurationBuckets[:], d.Seconds())
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// write writes nothing before the first duration, because some methods are never called, and each
// histogram has seventeen lines.
func (h *Histogram) write(w *bufio.Writer, name, labels string) {
	counts := make([]uint64, len(h.counts))
	total := uint64(0)
	for i := range counts {
		total += h.counts[i].Load()
		counts[i] = total
	}
	if total == 0 {
		return
	}
	comma := ""
	if labels != "" {
		comma = ","
	}
	for i, bound := range append(slices.Clone(DurationBuckets[:]), math.Inf(1)) {
		line(w, name+"_bucket", labels+comma+`le="`+number(bound)+`"`, float64(counts[i]))
	}
	line(w, name+"_sum", labels, time.Duration(h.sum.Load()).Seconds())
	line(w, name+"_count", labels, float64(total))
}

// Kinds of families that Collect adds.
const (
	KindCounter = "counter"
	KindGauge   = "gauge"
)

// collected is a family of metrics whose values are computed when they are written.
type collected struct {
	head
	collect func(emit func(value float64, labels ...string))
}

// Collect adds a family of a kind. collect is called each time the metrics are written, and passes
// the values with their labels to emit. It must not block.
func (s *Set) Collect(kind, name, help string, labels []string, collect func(emit func(value float64, labels ...string))) {
	s.add(&collected{head{name, help, kind, labels}, collect})
}

// CollectOne adds a gauge without labels whose value is computed when it is written.
func (s *Set) CollectOne(name, help string, value func() float64) {
	s.Collect(KindGauge, name, help, nil, func(emit func(float64, ...string)) { emit(value()) })
}

// maxPrograms bounds the series of CollectPrograms: more versions than that are not in use at a time.
const maxPrograms = 32

// Program is one end of a connection: its role or the name that it gives itself, and its build, such as codex-remote/1.2.3; "": it is
// not known. The other end chooses both.
type Program struct{ Name, Build string }

// CollectPrograms adds a gauge of how many programs of each build are connected. The most frequent ones have series of their own,
// and all others share one, because the other ends choose the values.
func (s *Set) CollectPrograms(name, help string, labels [2]string, now func() map[Program]int) {
	s.Collect(KindGauge, name, help, labels[:], func(emit func(float64, ...string)) {
		all := now()
		list := slices.SortedFunc(maps.Keys(all), func(a, b Program) int {
			return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Build, b.Build))
		})
		rest := 0
		for i, p := range list {
			if i < maxPrograms {
				emit(float64(all[p]), p.Name, p.Build)
			} else {
				rest += all[p]
			}
		}
		if rest > 0 {
			emit(float64(rest), overflow, overflow)
		}
	})
}

func (c *collected) write(w *bufio.Writer) {
	c.head.write(w)
	c.collect(func(value float64, labels ...string) { line(w, c.name, c.labelText(labels), value) })
}
