package audit

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// newLog returns a log that writes to a file, and its public key.
func newLog(t *testing.T, path string, change func(*Options)) (*Log, ed25519.PublicKey) {
	t.Helper()
	key, err := ReadKey(filepath.Join(filepath.Dir(path), "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Path: path, Key: key}
	if change != nil {
		change(&opts)
	}
	l, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	public, _ := key.Public().(ed25519.PublicKey)
	return l, public
}

func logPath(t *testing.T) string { return filepath.Join(t.TempDir(), "audit.log") }

// verify checks files, and returns their events.
func verify(t *testing.T, v *Verifier, paths ...string) (kinds []string, err error) {
	t.Helper()
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.File(bytes.NewReader(text), func(l *Line) error {
			kinds = append(kinds, l.Kind)
			return nil
		}); err != nil {
			return kinds, err
		}
	}
	return kinds, nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTrail(t *testing.T) {
	path := logPath(t)
	l, key := newLog(t, path, nil)
	code := 3
	must(t, l.Append(Event{Kind: EventProcessStarted, Process: "p", Argv: []string{"a", "b\n\"\xff"}}))
	must(t, l.Append(Event{Kind: EventProcessEnded, Process: "p", ExitCode: &code}))
	must(t, l.Close())
	if err := l.Append(Event{Kind: EventProcessEnded}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	again, _ := newLog(t, path, nil)
	must(t, again.Append(Event{Kind: EventSessionEnded}))
	must(t, again.Close())
	v := Verifier{Key: key}
	kinds, err := verify(t, &v, path)
	want := []string{EventOpened, EventProcessStarted, EventProcessEnded, EventSignature, EventOpened, EventSessionEnded, EventSignature}
	if err != nil || !slices.Equal(kinds, want) || v.First != 1 || v.Last != 7 || v.Signed != 7 || v.Signatures != 2 {
		t.Errorf("got error %v, kinds %q, v %+v; want no error, kinds %q, v.First 1, v.Last 7, v.Signed 7, v.Signatures 2", err, kinds, v, want)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got info %v, error %v; want no error, info.Mode().Perm() 0o600", info, err)
	}
	other, _, err := ed25519.GenerateKey(nil)
	must(t, err)
	if _, err := verify(t, &Verifier{Key: other}, path); !errors.Is(err, ErrTrail) || !strings.Contains(err.Error(), "another key") {
		t.Errorf("with another key: %v", err)
	}
}

// TestAnyChangeIsFound changes each byte of a trail, and removes, repeats and exchanges lines.
// Verify must report each change.
func TestAnyChangeIsFound(t *testing.T) {
	path := logPath(t)
	l, key := newLog(t, path, nil)
	for i := range 3 {
		must(t, l.Append(Event{Kind: EventProcessStarted, Process: fmt.Sprint("process ", i)}))
	}
	must(t, l.Close())
	text, err := os.ReadFile(path)
	must(t, err)
	fails := func(what string, changed []byte) {
		t.Helper()
		v := Verifier{Key: key}
		if err := v.File(bytes.NewReader(changed), nil); !errors.Is(err, ErrTrail) {
			t.Fatalf("%s: got error %v, want %v", what, err, ErrTrail)
		}
	}
	for i := range text {
		changed := bytes.Clone(text)
		changed[i] ^= 1
		fails(fmt.Sprintf("byte %d of %q", i, text), changed)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	lines = lines[:len(lines)-1]
	for i := range lines[:len(lines)-1] {
		if i > 0 {
			fails(fmt.Sprint("without line ", i), bytes.Join(slices.Delete(slices.Clone(lines), i, i+1), nil))
		}
		fails(fmt.Sprint("line twice ", i), bytes.Join(slices.Insert(slices.Clone(lines), i, lines[i]), nil))
		swapped := slices.Clone(lines)
		swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
		fails(fmt.Sprint("exchanged ", i), bytes.Join(swapped, nil))
	}
	fails("without its end", text[:len(text)-1])
}

func TestRotation(t *testing.T) {
	path := logPath(t)
	l, key := newLog(t, path, func(o *Options) { o.MaxBytes = LeastMaxBytes })
	long := []string{strings.Repeat("x", MaxRecord/2)}
	for range 3 * LeastMaxBytes / (MaxRecord / 2) {
		must(t, l.Append(Event{Kind: EventProcessStarted, Argv: long}))
	}
	must(t, l.Rotate())
	moved := path + ".moved"
	must(t, os.Rename(path, moved)) // as logrotate does
	must(t, l.Append(Event{Kind: EventSessionEnded}))
	must(t, l.Rotate())
	must(t, l.Append(Event{Kind: EventSessionEnded}))
	must(t, l.Close())
	files, err := filepath.Glob(path + ".2*")
	must(t, err)
	if len(files) < 3 {
		t.Errorf("there are %d files", len(files))
	}
	slices.SortFunc(files, func(a, b string) int { return cmp.Compare(lastOf(t, a), lastOf(t, b)) })
	v := Verifier{Key: key}
	if _, err := verify(t, &v, append(files, moved, path)...); err != nil || v.Signed != v.Last {
		t.Errorf("got error %v, v %+v, files %q; want no error, v.Signed %v", err, v, files, v.Last)
	}
	// The newest file on its own is a valid part of the trail.
	part := Verifier{Key: key}
	if _, err := verify(t, &part, path); err != nil || part.First == 1 || part.Last != v.Last {
		t.Errorf("got error %v, part %+v; want no error, part.First other than 1, part.Last %v", err, part, v.Last)
	}
}

// lastOf returns the number of a file's last line, which is in the file's name.
func lastOf(t *testing.T, path string) int {
	t.Helper()
	n, err := strconv.Atoi(path[strings.LastIndex(path, "-")+1:])
	must(t, err)
	return n
}

// TestLineThatWasCutOff: after a crash in the middle of a line, the trail continues and
// records the crash.
func TestLineThatWasCutOff(t *testing.T) {
	path := logPath(t)
	l, key := newLog(t, path, nil)
	must(t, l.Append(Event{Kind: EventSessionStarted}))
	must(t, l.Close())
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.WriteString(`{"seq":4,"ti`)
	must(t, errors.Join(err, f.Close()))
	if _, err := verify(t, &Verifier{}, path); !errors.Is(err, ErrTrail) {
		t.Errorf("before: %v", err)
	}
	again, _ := newLog(t, path, nil)
	must(t, again.Close())
	kinds, err := verify(t, &Verifier{Key: key}, path)
	if err != nil || !slices.Contains(kinds, EventRecovered) {
		t.Errorf("got error %v, kinds %q; want no error, kinds with %v", err, kinds, EventRecovered)
	}
}

func TestLongEvent(t *testing.T) {
	path := logPath(t)
	l, _ := newLog(t, path, nil)
	must(t, l.Append(Event{Kind: EventProcessStarted, Process: "p", Argv: []string{strings.Repeat("x", MaxRecord)}, Cwd: "/"}))
	must(t, l.Close())
	text, err := os.ReadFile(path)
	must(t, err)
	if _, err := verify(t, &Verifier{}, path); err != nil || !bytes.Contains(text, []byte(`"processId":"p","clipped":true`)) {
		t.Errorf("got error %v, text:\n%s\nwant no error", err, text)
	}
}

// TestUnwritable: without disk space, work is refused or continues, as configured, and the
// trail records how much is missing.
func TestUnwritable(t *testing.T) {
	for _, goesOn := range []bool{false, true} {
		path := logPath(t)
		l, key := newLog(t, path, func(o *Options) { o.Continue = goesOn })
		must(t, l.Append(Event{Kind: EventSessionStarted}))
		good := l.file
		unwritable, err := os.Open(path)
		must(t, err)
		l.mu.Lock()
		l.file = unwritable
		l.mu.Unlock()
		if err := l.Append(Event{Kind: EventProcessStarted}); (err == nil) != goesOn {
			t.Errorf("goes on %v: %v", goesOn, err)
		}
		l.Note(Event{Kind: EventProcessEnded})
		if got := l.Health(); got.Writable || got.Refuses == goesOn {
			t.Errorf("goes on %v: got %+v, want it not writable", goesOn, got)
		}
		l.mu.Lock()
		l.file = good
		l.mu.Unlock()
		must(t, unwritable.Close())
		must(t, l.Append(Event{Kind: EventSessionEnded}))
		const want = 2
		if got := l.Health(); got.Lost != want || !got.Writable || got.Refuses {
			t.Errorf("goes on %v: got %+v, want %d lost, writable again", goesOn, got, want)
		}
		must(t, l.Close())
		v := Verifier{Key: key}
		kinds, err := verify(t, &v, path)
		if err != nil || v.Lost != want || !slices.Equal(kinds, []string{EventOpened, EventSessionStarted, EventLost, EventSessionEnded, EventSignature}) {
			t.Errorf("goes on %v: %v, %+v, %q", goesOn, err, v, kinds)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	path := logPath(t)
	l, _ := newLog(t, path, nil)
	opts := l.opts
	refused := func(what, want string, change func(*Options)) {
		t.Helper()
		o := opts
		change(&o)
		if l, err := Open(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want an error with %q", what, err, want)
			if err == nil {
				_ = l.Close()
			}
		}
	}
	at := func(name, text string, mode os.FileMode) func(*Options) {
		file := filepath.Join(filepath.Dir(path), name)
		must(t, os.WriteFile(file, []byte(text), 0o600))
		must(t, os.Chmod(file, mode))
		return func(o *Options) { o.Path = file }
	}
	refused("a second one", "another server has it", func(*Options) {})
	refused("a relative path", "must be absolute", func(o *Options) { o.Path = "x" })
	refused("no key", "no key", func(o *Options) { o.Key = nil })
	refused("a small size", "at least", func(o *Options) { o.MaxBytes = 5 })
	refused("another file", "not a record", at("text", "hello\n", 0o600))
	kept := func(what, text string) {
		t.Helper()
		change := at(strings.ReplaceAll(what, " ", "-"), text, 0o600)
		refused(what, "of an audit trail", change)
		o := opts
		change(&o)
		if got, err := os.ReadFile(o.Path); err != nil || string(got) != text {
			t.Errorf("%s has %q now, %v", what, got, err)
		}
	}
	kept("another file without a newline", "a token")
	kept("another file that ends in a line", "hello\na token")
	kept("a short file", "{")
	refused("of others", "other users can change it", at("open", "", 0o622))
	must(t, os.Symlink("text", filepath.Join(filepath.Dir(path), "link")))
	refused("a link", "link", func(o *Options) { o.Path = filepath.Join(filepath.Dir(path), "link") })
	refused("a directory", "directory", func(o *Options) { o.Path = filepath.Dir(path) })
}

func TestConcurrentEvents(t *testing.T) {
	path := logPath(t)
	l, key := newLog(t, path, nil)
	var wg sync.WaitGroup
	const writers, events = 4, 2 * signRecords
	for range writers {
		wg.Go(func() {
			for range events {
				l.Note(Event{Kind: EventProcessStarted})
			}
		})
	}
	wg.Wait()
	must(t, l.Close())
	v := Verifier{Key: key}
	if _, err := verify(t, &v, path); err != nil || v.Lines != writers*events+1+v.Signatures || v.Signatures < writers*events/signRecords {
		t.Errorf("got error %v, v %+v; want no error, v.Lines %v, v.Signatures at least %v", err, v, writers*events+1+v.Signatures, writers*events/signRecords)
	}
}

func TestReadKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key.pem")
	made, err := ReadKey(path)
	must(t, err)
	if again, err := ReadKey(path); err != nil || !again.Equal(made) {
		t.Errorf("got error %v; want no error, again.Equal(made)", err)
	}
	must(t, os.Chmod(path, 0o644))
	if _, err := ReadKey(path); err == nil {
		t.Error("a key that others can read was accepted")
	}
	must(t, errors.Join(os.WriteFile(path, []byte("x"), 0o600), os.Chmod(path, 0o600)))
	if _, err := ReadKey(path); err == nil || !strings.Contains(err.Error(), "PEM") {
		t.Errorf(`got error %v, want an error with "PEM"`, err)
	}
}

// FuzzVerify: Verifier accepts or refuses any file, and does not panic.
func FuzzVerify(f *testing.F) {
	zeros := strings.Repeat("0", 64)
	for _, s := range []string{
		"", "x\n", `{"seq":1,"time":"t","event":"log.opened","prev":"` + zeros + "\"}\n", `{"seq":2,"time":"t","event":"log.signature","prev":"` + zeros + "\"}\n",
		`{"seq":1,"event":"x","prev":"` + zeros + "\"}\n" + `{"seq":2,"event":"log.signature","key":"AAAA","signature":"","prev":"` + zeros + "\"}\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		lines := 0
		v := Verifier{}
		err := v.File(bytes.NewReader(text), func(*Line) error {
			lines++
			return nil
		})
		if err == nil && lines != bytes.Count(text, []byte("\n")) || lines != v.Lines {
			t.Errorf("%q: %v, %d lines", text, err, lines)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	b.ReportAllocs()
	dir := b.TempDir()
	key, err := ReadKey(filepath.Join(dir, "key.pem"))
	if err != nil {
		b.Fatal(err)
	}
	l, err := Open(Options{Path: filepath.Join(dir, "log"), Key: key})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	for b.Loop() {
		l.Note(Event{Kind: EventProcessStarted, Process: "p", Session: "0123456789abcdef"})
	}
}

// TestStartThatWasCutOff: if the first line of a trail is incomplete, the log removes it.
func TestStartThatWasCutOff(t *testing.T) {
	for _, text := range []string{`{"seq":1,"ti`, `{"seq":1`, "\x00\x00\x00"} {
		path := logPath(t)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		l, key := newLog(t, path, nil)
		must(t, l.Close())
		v := Verifier{Key: key}
		kinds, err := verify(t, &v, path)
		if err != nil || !slices.Equal(kinds, []string{EventRecovered, EventOpened, EventSignature}) || v.First != 1 {
			t.Errorf("%q: got error %v, kinds %q; want no error, v.First 1", text, err, kinds)
		}
	}
}

// TestPartOfALineIsRemovedLater: if a partial line cannot be removed at once, the log writes
// nothing after it until the line is removed.
func TestPartOfALineIsRemovedLater(t *testing.T) {
	path := logPath(t)
	l, key := newLog(t, path, nil)
	good := l.file
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0) // /dev/full cannot be truncated either
	must(t, err)
	l.mu.Lock()
	l.file = full
	l.mu.Unlock()
	for range 2 {
		if err := l.Append(Event{Kind: EventProcessStarted}); err == nil {
			t.Error("a full device takes an event")
		}
	}
	_, err = good.WriteString(`{"seq":2,"ti`)
	must(t, err)
	l.mu.Lock()
	l.file = good
	l.mu.Unlock()
	must(t, full.Close())
	must(t, l.Append(Event{Kind: EventSessionStarted}))
	must(t, l.Close())
	kinds, err := verify(t, &Verifier{Key: key}, path)
	want := []string{EventOpened, EventLost, EventSessionStarted, EventSignature}
	if err != nil || !slices.Equal(kinds, want) {
		t.Errorf("got error %v, kinds %q; want %q", err, kinds, want)
	}
}

// TestFlushThatFails: if flushing the trail to the disk fails, the log reports it and tries
// again, even if no further event arrives. A written event does not count as lost.
func TestFlushThatFails(t *testing.T) {
	for _, goesOn := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			l, _ := newLog(t, logPath(t), func(o *Options) {
				o.Continue, o.Logger = goesOn, slog.New(slog.NewTextHandler(&log, nil))
			})
			good := l.file
			r, w, err := os.Pipe() // a pipe takes lines, but cannot be flushed
			must(t, err)
			defer r.Close()
			l.mu.Lock()
			l.file = w
			l.mu.Unlock()
			must(t, l.Append(Event{Kind: EventSessionStarted}))
			time.Sleep(2*signInterval + time.Second)
			l.mu.Lock()
			if got := strings.Count(log.String(), "the audit log cannot be written"); got != 1 || !l.unsynced {
				t.Errorf("goes on %v: it is logged %d times: %s", goesOn, got, &log)
			}
			l.mu.Unlock()
			var failed error
			for range signRecords {
				failed = errors.Join(failed, l.Append(Event{Kind: EventSessionResumed}))
			}
			if (failed == nil) != goesOn || l.Health().Lost != 0 {
				t.Errorf("goes on %v: %v, %+v; want none lost", goesOn, failed, l.Health())
			}
			l.mu.Lock()
			l.file = good
			l.mu.Unlock()
			must(t, w.Close())
			must(t, l.Close())
		})
	}
}

// TestTrailRecoversWithoutEvents: when the disk has space again, the log notices and records it
// even if no further event arrives. Scenario: a load balancer sends no work to a server that is
// not ready.
func TestTrailRecoversWithoutEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := logPath(t)
		l, key := newLog(t, path, nil)
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		must(t, err)
		l.mu.Lock()
		good := l.file
		l.file = full
		l.mu.Unlock()
		if err := l.Append(Event{Kind: EventSessionStarted}); err == nil || !l.Health().Refuses || l.Health().Lost != 1 {
			t.Errorf("got error %v, %+v; want an error, 1 lost", err, l.Health())
		}
		l.mu.Lock()
		l.file = good
		l.mu.Unlock()
		must(t, full.Close())
		time.Sleep(signInterval + time.Second)
		if got := l.Health(); !got.Writable || got.Refuses {
			t.Errorf("got %+v, want it writable", got)
		}
		must(t, l.Close())
		kinds, err := verify(t, &Verifier{Key: key}, path)
		if err != nil || !slices.Equal(kinds, []string{EventOpened, EventLost, EventSignature}) {
			t.Errorf("got error %v, kinds %q; want no error, %v", err, kinds, EventLost)
		}
	})
}

// TestInterference: if another program changes the file, the change is in the log, in the trail
// and in the metrics. The server refuses new work until SIGHUP, or continues, as configured.
// The next file records the change.
func TestInterference(t *testing.T) {
	for name, tt := range map[string]struct {
		change string // a part of the recorded change
		do     func(path string) error
	}{
		"removed":   {"it was removed", os.Remove},
		"truncated": {"it was truncated from", func(path string) error { return os.Truncate(path, 10) }},
		"emptied":   {"to 0 bytes", func(path string) error { return os.Truncate(path, 0) }},
		"appended": {"it has 2 bytes", func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString("x\n")
			return errors.Join(err, f.Close())
		}},
		"replaced": {"another file has taken its place", func(path string) error {
			return errors.Join(os.WriteFile(path+".new", nil, 0o600), os.Rename(path+".new", path))
		}},
		"renamed": {"it was renamed, and no SIGHUP came", func(path string) error { return os.Rename(path, path+".old") }},
	} {
		for _, goesOn := range []bool{false, true} {
			for _, busy := range []bool{false, true} { // an event arrives before the periodic check
				t.Run(fmt.Sprintf("%s, goes on %v, busy %v", name, goesOn, busy), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { interfere(t, tt.change, tt.do, goesOn, busy) })
				})
			}
		}
	}
}

func interfere(t *testing.T, change string, do func(path string) error, goesOn, busy bool) {
	var log bytes.Buffer
	path := logPath(t)
	l, _ := newLog(t, path, func(o *Options) { o.Continue, o.Logger = goesOn, slog.New(slog.NewTextHandler(&log, nil)) })
	must(t, l.Append(Event{Kind: EventSessionStarted}))
	must(t, do(path))
	if strings.Contains(change, "renamed") {
		l.Note(Event{Kind: EventSessionEnded})
		if l.Health().Tampered != 0 {
			t.Error("logrotate has no time to send SIGHUP")
		}
		time.Sleep(awayTime)
	}
	if busy {
		if err := l.Append(Event{Kind: EventProcessStarted}); (err == nil) != goesOn || !goesOn && !strings.Contains(err.Error(), change) {
			t.Errorf("a start: got %v, want work to go on %v", err, goesOn)
		}
	}
	time.Sleep(2 * signInterval)
	if got := l.Health(); got.Tampered != 1 || got.Writable != goesOn || got.Refuses == goesOn || got.Lost != 0 {
		t.Errorf("got %+v, want it tampered with once, and work to go on %v", got, goesOn)
	}
	if got := strings.Count(log.String(), "level=ERROR"); got != 1 || !strings.Contains(log.String(), change) {
		t.Errorf("got %d errors in the log, want 1 with %q: %s", got, change, &log)
	}
	if err := l.Append(Event{Kind: EventProcessStarted}); (err == nil) != goesOn {
		t.Errorf("a start: got %v, want work to go on %v", err, goesOn)
	}
	l.Note(Event{Kind: EventProcessEnded}) // Note records an event in any case
	must(t, l.Rotate())
	must(t, l.Append(Event{Kind: EventSessionResumed}))
	if got := l.Health(); !got.Writable || got.Refuses || got.Tampered != 1 {
		t.Errorf("after SIGHUP: got %+v, want it writable", got)
	}
	must(t, l.Close())
	files, err := filepath.Glob(path + "*")
	must(t, err)
	var all []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		all = append(all, text...)
	}
	for _, want := range []string{`"event":"log.tampered","reason":"` + change, EventProcessEnded, EventSessionResumed} {
		if change == "to 0 bytes" {
			want = strings.Replace(want, `"reason":"`, `"reason":"it was truncated from `, 1)
			want, _, _ = strings.Cut(want, "to 0")
		}
		if strings.Count(string(all), want) != 1 {
			t.Errorf("got a trail without one %s:\n%s", want, all)
		}
	}
}

// TestStream: on standard output each run writes one trail, whose lines are short enough for
// every log collector. If nobody reads standard output, the program continues and refuses work.
func TestStream(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	l, key := newLog(t, logPath(t), func(o *Options) { o.Path, o.Stream = "", w })
	must(t, l.Append(Event{Kind: EventProcessStarted, Process: "p", Argv: []string{strings.Repeat("x", MaxStreamRecord)}}))
	must(t, l.Rotate())
	must(t, l.Append(Event{Kind: EventProcessEnded}))
	must(t, l.Close())
	text, err := io.ReadAll(r)
	must(t, err)
	must(t, r.Close())
	v, kinds := Verifier{Key: key}, []string(nil)
	err = v.File(bytes.NewReader(text), func(line *Line) error {
		kinds = append(kinds, line.Kind)
		return nil
	})
	want := []string{EventOpened, EventProcessStarted, EventSignature, EventProcessEnded, EventSignature}
	if err != nil || !slices.Equal(kinds, want) || v.First != 1 || !bytes.Contains(text, []byte(`"clipped":true`)) {
		t.Errorf("got error %v, kinds %q, first %d; want %q, 1, one clipped", err, kinds, v.First, want)
	}

	r, w, err = os.Pipe()
	must(t, err)
	l, _ = newLog(t, logPath(t), func(o *Options) { o.Path, o.Stream = "", w })
	must(t, r.Close())
	if err := l.Append(Event{Kind: EventSessionStarted}); !errors.Is(err, syscall.EPIPE) || !l.Health().Refuses {
		t.Errorf("without a reader: got %v, %+v; want %v", err, l.Health(), syscall.EPIPE)
	}
}

// TestRefusalsAreBounded: a client that is refused again and again is in the trail once a
// minute, with a count.
func TestRefusalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := logPath(t)
		l, _ := newLog(t, path, nil)
		refuse := func(address, method string, n int) {
			for port := range n {
				l.NoteRefusal(Event{Kind: EventRequestRefused, Principal: "p", Method: method, Peer: fmt.Sprintf("%s:%d", address, port+1)})
			}
		}
		counts := func() (list []uint64) {
			text, err := os.ReadFile(path)
			must(t, err)
			must(t, new(Verifier).File(bytes.NewReader(text), func(line *Line) error {
				if line.Kind == EventRequestRefused {
					list = append(list, line.Count)
				}
				return nil
			}))
			return list
		}
		refuse("10.0.0.1", "process/start", 100)
		if got := counts(); !slices.Equal(got, []uint64{1}) {
			t.Errorf("at once: got %v, want 1", got)
		}
		refuse("10.0.0.2", "process/start", 1)
		refuse("10.0.0.1", "fs/writeFile", 1)
		time.Sleep(refusalInterval + signInterval)
		if got := counts(); !slices.Equal(got, []uint64{1, 1, 1, 99}) {
			t.Errorf("after a minute: got %v, want 99 more of the first", got)
		}
		for range 2 * maxRefusals {
			refuse(fmt.Sprint("10.0.1.", len(l.refused)), "process/start", 1)
		}
		if len(l.refused) > maxRefusals+1 {
			t.Errorf("%d clients are remembered, want at most %d", len(l.refused), maxRefusals+1)
		}
		must(t, l.Close())
		sum := uint64(0)
		for _, n := range counts() {
			sum += n
		}
		if want := uint64(102 + 2*maxRefusals); sum != want {
			t.Errorf("the counts are %d together, want %d", sum, want)
		}
	})
}

// TestExpect: with a record that was noted elsewhere, Verify reports that a trail was
// truncated, even after a signature, or was written anew.
func TestExpect(t *testing.T) {
	path := logPath(t)
	l, key := newLog(t, path, nil)
	must(t, l.Append(Event{Kind: EventSessionStarted}))
	must(t, l.Close())
	short, err := os.ReadFile(path)
	must(t, err)
	l, _ = newLog(t, path, nil)
	must(t, l.Append(Event{Kind: EventSessionEnded}))
	must(t, l.Close())
	whole, err := os.ReadFile(path)
	must(t, err)
	check := func(text []byte, expect Position) (Position, error) {
		v := Verifier{Key: key, Expect: expect}
		if err := v.File(bytes.NewReader(text), nil); err != nil {
			return Position{}, err
		}
		return v.Position(), v.End()
	}
	middle, err := check(short, Position{})
	must(t, err)
	end, err := check(whole, Position{})
	must(t, err)
	other := middle
	other.Digest[0] ^= 1
	unsigned := whole[:bytes.IndexByte(whole, '\n')+1]
	for _, tt := range []struct {
		name   string
		text   []byte
		expect Position
		want   string // a part of the expected error; "": none
	}{
		{"whole", whole, end, ""},
		{"longer", whole, middle, ""},
		{"cut at a signature", short, end, "was cut"},
		{"empty", nil, end, "was cut"},
		{"made anew", whole, other, "differs from the expected one"},
		{"unsigned", unsigned, Position{}, "no signature"},
		{"nothing", nil, Position{}, "no signature"},
		{"the older file is missing", whole[len(short):], middle, "an older file"},
	} {
		if _, err := check(tt.text, tt.expect); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want an error with %q", tt.name, err, tt.want)
		}
	}
	if got, err := ParsePosition(end.String()); err != nil || got != end {
		t.Errorf("got %v, %v; want %v", got, err, end)
	}
	for _, text := range []string{"", "1", "0:" + strings.Repeat("0", 64), "1:00", "x:" + strings.Repeat("0", 64)} {
		if _, err := ParsePosition(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

// TestTheChangedLineIsNamed changes one line of a trail of two files. The error must name the line that was changed, not
// the one whose digest no longer fits.
func TestTheChangedLineIsNamed(t *testing.T) {
	path := logPath(t)
	l, key := newLog(t, path, nil)
	for i := range 5 {
		must(t, l.Append(Event{Kind: EventProcessStarted, Process: fmt.Sprint("process-", i)}))
	}
	must(t, l.Close())
	text, err := os.ReadFile(path)
	must(t, err)
	lines := bytes.SplitAfter(text, []byte("\n"))
	lines = lines[:len(lines)-1] // opened, 5 processes, signature
	process, prev := []byte("process-"), []byte(`"prev":"`)
	for _, tt := range []struct {
		name  string
		line  int    // that is changed
		after []byte // what stands before the changed byte
		cut   int    // lines in the first file
		want  string
	}{
		{"a member", 3, process, 7, "line 3: the audit trail is broken: it was changed after it was written: line 4 has the digest of another line"},
		{"the digest of its predecessor", 4, prev, 7, "line 4: the audit trail is broken: it was changed after it was written: line 5 has the digest of another line"},
		{"the last line before a signature", 6, process, 7, "line 6: the audit trail is broken: it or line 7 was changed after it was written"},
		{"the last line of a file", 3, process, 3, "line 1: the audit trail is broken: the last line of the file before it was changed after it was written: line 1 has the digest of another line"},
		{"the first line of a file", 4, prev, 3, "line 1: the audit trail is broken: it was changed after it was written: line 2 has the digest of another line"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			trail := slices.Clone(lines)
			line := bytes.Clone(trail[tt.line-1])
			line[bytes.Index(line, tt.after)+len(tt.after)] ^= 1
			trail[tt.line-1] = line
			v := Verifier{Key: key}
			err := v.File(bytes.NewReader(bytes.Join(trail[:tt.cut], nil)), nil)
			if err == nil {
				err = v.File(bytes.NewReader(bytes.Join(trail[tt.cut:], nil)), nil)
			}
			if err == nil || err.Error() != tt.want || !errors.Is(err, ErrTrail) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}
