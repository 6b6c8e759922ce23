package metrics

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func text(t *testing.T, s *Set) string {
	t.Helper()
	var b strings.Builder
	if err := s.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWrite(t *testing.T) {
	s := NewSet()
	requests := s.Counters("b_requests_total", "Requests\nand a \\.", "method", "result")
	requests.With("get", "ok").Add(3)
	requests.With("get", "ok").Inc()
	requests.With("a\"b\\c\nd\xff", "error")
	s.Gauge("c_active", "Active.").Add(-2)
	h := s.Histograms("a_seconds", "Durations.", "kind")
	h.With("none")
	for _, d := range []time.Duration{0, 500 * time.Microsecond, 501 * time.Microsecond, time.Second, time.Hour} {
		h.With("x").Observe(d)
	}
	s.Collect(KindGauge, "d_state", "State.", []string{"state"}, func(emit func(float64, ...string)) {
		emit(0.25, "one")
		emit(1e15, "two")
	})
	want := `# HELP a_seconds Durations.
# TYPE a_seconds histogram
a_seconds_bucket{kind="x",le="0.0005"} 2
a_seconds_bucket{kind="x",le="0.001"} 3
a_seconds_bucket{kind="x",le="0.0025"} 3
a_seconds_bucket{kind="x",le="0.005"} 3
a_seconds_bucket{kind="x",le="0.01"} 3
a_seconds_bucket{kind="x",le="0.025"} 3
a_seconds_bucket{kind="x",le="0.05"} 3
a_seconds_bucket{kind="x",le="0.1"} 3
a_seconds_bucket{kind="x",le="0.25"} 3
a_seconds_bucket{kind="x",le="1"} 4
a_seconds_bucket{kind="x",le="2.5"} 4
a_seconds_bucket{kind="x",le="10"} 4
a_seconds_bucket{kind="x",le="60"} 4
a_seconds_bucket{kind="x",le="600"} 4
a_seconds_bucket{kind="x",le="+Inf"} 5
a_seconds_sum{kind="x"} 3601.001001
a_seconds_count{kind="x"} 5
# HELP b_requests_total Requests\nand a \\.
# TYPE b_requests_total counter
b_requests_total{method="a\"b\\c\nd` + "\uFFFD" + `",result="error"} 0
b_requests_total{method="get",result="ok"} 4
# HELP c_active Active.
# TYPE c_active gauge
c_active -2
# HELP d_state State.
# TYPE d_state gauge
d_state{state="one"} 0.25
d_state{state="two"} 1000000000000000
`
	if got := text(t, s); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestProgramsAreBounded: the most frequent programs have series of their own, and all others share one.
func TestProgramsAreBounded(t *testing.T) {
	all := map[Program]int{{"a", "a/1"}: 7, {"a", ""}: 2}
	s := NewSet()
	s.CollectPrograms("x", "X.", [2]string{"client", "build"}, func() map[Program]int { return all })
	for i := range 100 {
		if i == 0 {
			wantText(t, s, `x{client="a",build=""} 2`, `x{client="a",build="a/1"} 7`)
		}
		all[Program{"b", fmt.Sprint(i)}] = 1
	}
	wantText(t, s, `x{client="a",build=""} 2`, `x{client="a",build="a/1"} 7`, fmt.Sprintf(`x{client="other",build="other"} %d`, 102-maxPrograms))
	if n := strings.Count(text(t, s), "\nx{"); n != maxPrograms+1 {
		t.Errorf("got %d series, want %d", n, maxPrograms+1)
	}
}

func wantText(t *testing.T, s *Set, lines ...string) {
	t.Helper()
	got := text(t, s)
	for _, line := range lines {
		if !strings.Contains(got, "\n"+line+"\n") {
			t.Errorf("got\n%s\nwant %s", got, line)
		}
	}
}

// TestSeriesAreBounded: label values from outside cannot fill the memory.
func TestSeriesAreBounded(t *testing.T) {
	s := NewSet()
	f := s.Counters("x_total", "X.", "a", "b")
	for i := range 2 * maxSeries {
		f.With(fmt.Sprint(i), "b").Inc()
	}
	got := text(t, s)
	if n := strings.Count(got, "\nx_total{"); n != maxSeries+1 {
		t.Errorf("there are %d", n)
	}
	if !strings.Contains(got, fmt.Sprintf("x_total{a=\"other\",b=\"other\"} %d\n", maxSeries)) {
		t.Error("those that exceed the limit are not counted as other")
	}
}

func TestWrongLabels(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a missing label value was accepted")
		}
	}()
	NewSet().Counters("x_total", "X.", "a").With()
}

func TestWriteFails(t *testing.T) {
	s := NewSet()
	s.Counter("x_total", "X.")
	if err := s.Write(broken{}); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestConcurrent(t *testing.T) {
	s := NewSet()
	f, h := s.Counters("x_total", "X.", "n"), s.Histogram("y_seconds", "Y.")
	var wg sync.WaitGroup
	const workers, times = 4, 200
	for range workers {
		wg.Go(func() {
			for i := range times {
				f.With(fmt.Sprint(i % 3)).Inc()
				h.Observe(time.Millisecond)
				_ = s.Write(&strings.Builder{})
			}
		})
	}
	wg.Wait()
	if n := f.With("0").Get() + f.With("1").Get() + f.With("2").Get(); n != workers*times {
		t.Errorf("counted %d", n)
	}
	if got := text(t, s); !strings.Contains(got, fmt.Sprintf("y_seconds_count %d\n", workers*times)) {
		t.Errorf("got %v, want a text with %q", got, fmt.Sprintf("y_seconds_count %d\n", workers*times))
	}
}

// sampleLine is a line of the format that is not a comment.
var sampleLine = regexp.MustCompile(`^[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? (-?[0-9.e+]+)$`)

func TestProgram(t *testing.T) {
	s := NewSet()
	s.AddProgram("1.2.3")
	got := text(t, s)
	for line := range strings.Lines(got) {
		if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, "# ") && !sampleLine.MatchString(line) {
			t.Errorf("got %q, want sampleLine.MatchString(line)", line)
		}
	}
	names := []string{"go_goroutines", "go_memstats_heap_alloc_bytes", "go_gc_cycles_total", "process_start_time_seconds"}
	if runtime.GOOS == "linux" {
		names = append(names, "process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds")
	}
	for _, name := range names {
		if m := regexp.MustCompile(`(?m)^` + name + ` [1-9]`).FindString(got); m == "" && name != "go_gc_cycles_total" && name != "process_cpu_seconds_total" {
			t.Errorf("%s is missing or zero in\n%s", name, got)
		} else if !strings.Contains(got, "\n"+name+" ") {
			t.Errorf("%s is missing", name)
		}
	}
	if !strings.Contains(got, `codex_build_info{version="1.2.3",goversion="go`) {
		t.Errorf("got %v, want a text with %q", got, `codex_build_info{version="1.2.3",goversion="go`)
	}
}

func TestFields(t *testing.T) {
	for stat, want := range map[string]string{"1 (a) S 2": "S", "1 (a) b) (c) R 2": "R", "": ""} {
		got := fields(stat)
		if want == "" && len(got) > 0 || want != "" && (len(got) == 0 || got[0] != want) {
			t.Errorf("%q: got %v; want len(got) at most 0, len(got) other than 0, got[0] %v", stat, got, want)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	b.ReportAllocs()
	h := NewSet().Histogram("x_seconds", "X.")
	for b.Loop() {
		h.Observe(3 * time.Millisecond)
	}
}
