package warmstart

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// vectors are jobs and their messages. If one of them changes, the format changes, and it needs a
// new version number.
var vectors = []struct {
	job Job
	hex string
}{
	{Job{Files: []int{0, 1, 2}}, "63786f31" + "00000000" + "00" + "03" + "0000"},
	{Job{Args: []string{"--x", "", "é"}, Files: []int{0, 1, 2}}, "63786f31" + "08000000" + "00" + "03" + "0000" + "2d2d7800" + "00" + "c3a900"},
	{Job{Args: []string{"a"}, Terminal: true, Files: []int{0, 1, 2, 2}}, "63786f31" + "02000000" + "01" + "04" + "0000" + "6100"},
	{Job{Cgroup: true, Files: []int{0, 1, 2, 3}}, "63786f31" + "00000000" + "02" + "04" + "0000"},
	{Job{Cgroup: true, Limited: true, Files: []int{0, 1, 2, 3}}, "63786f31" + "00000000" + "0a" + "04" + "0000"},
	{Job{Report: true, Files: []int{0, 1, 2}}, "63786f31" + "00000000" + "04" + "03" + "0000"},
}

func TestVectors(t *testing.T) {
	for _, v := range vectors {
		b, err := v.job.encode()
		if got := hex.EncodeToString(b); err != nil || got != v.hex {
			t.Errorf("%v: %s, %v; want %s", v.job, got, err, v.hex)
		}
		h, err := decodeHeader(b)
		if err != nil || h.size != len(b)-headerSize || h.files != len(v.job.Files) || h.terminal != v.job.Terminal || h.cgroup != v.job.Cgroup || h.limited != v.job.Limited ||
			h.report != v.job.Report {
			t.Errorf("%v: got h %+v, error %v; want no error, h.size %v, h.files %v, h.terminal %v, h.cgroup %v, h.limited %v, h.report %v", v.job, h, err, len(b)-headerSize, len(v.job.Files), v.job.Terminal, v.job.Cgroup, v.job.Limited, v.job.Report)
		}
		args, err := decodeText(b[headerSize:])
		if err != nil || !reflect.DeepEqual(args, v.job.Args) {
			t.Errorf("%q: got args %q, error %v; want no error, args %q", v.job.Args, args, err, v.job.Args)
		}
	}
}

func TestRefusedJobs(t *testing.T) {
	three := []int{0, 1, 2}
	for name, o := range map[string]Job{
		"NUL":                  {Args: []string{"a\x00"}, Files: three},
		"too much text":        {Args: []string{strings.Repeat("x", MaxText)}, Files: three},
		"too few descriptors":  {Files: three[:2]},
		"too many descriptors": {Files: make([]int, MaxFiles+1)},
	} {
		if _, err := o.encode(); err == nil {
			t.Errorf("%s: sent", name)
		}
	}
	for name, text := range map[string]string{
		"another version":      "cxo2" + "\x00\x00\x00\x00" + "\x00\x03\x00\x00",
		"too much text":        "cxo1" + "\x01\x00\x20\x00" + "\x00\x03\x00\x00",
		"limits and no cgroup": "cxo1" + "\x00\x00\x00\x00" + "\x08\x03\x00\x00",
		"another flag":         "cxo1" + "\x00\x00\x00\x00" + "\x10\x03\x00\x00",
		"no cgroup":            "cxo1" + "\x00\x00\x00\x00" + "\x02\x03\x00\x00",
		"too few descriptors":  "cxo1" + "\x00\x00\x00\x00" + "\x00\x02\x00\x00",
		"too many descriptors": "cxo1" + "\x00\x00\x00\x00" + "\x00\x11\x00\x00",
		"something behind":     "cxo1" + "\x00\x00\x00\x00" + "\x00\x03\x00\x01",
		"too short":            "cxo1",
	} {
		if _, err := decodeHeader([]byte(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// pair returns both ends, which are closed when the test ends.
func pair(t *testing.T) (starter, standby int) {
	t.Helper()
	starter, standby, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(standby) })
	return starter, standby
}

// TestJob sends a job that is larger than the socket's buffer, and compares the
// received job, including its descriptors.
func TestJob(t *testing.T) {
	starter, socket := pair(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want := Job{Args: []string{strings.Repeat("x", MaxText-3), "y"}, Terminal: true, Files: []int{0, 1, 2, int(w.Fd())}}
	sent := make(chan error)
	go func() { sent <- Send(starter, &want) }()
	got, err := Receive(socket)
	if err := errors.Join(err, <-sent, unix.Close(starter), w.Close()); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Args, want.Args) || !got.Terminal || len(got.Files) != 4 {
		t.Fatalf("%d arguments, terminal %t, descriptors %v", len(got.Args), got.Terminal, got.Files)
	}
	for _, fd := range got.Files {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("the descriptor %d is inherited (%v)", fd, err)
		}
	}
	if _, err := unix.Write(got.Files[3], []byte("z")); err != nil {
		t.Error(err)
	}
	for _, fd := range got.Files {
		_ = unix.Close(fd)
	}
	text := make([]byte, 2)
	if n, err := r.Read(text); n != 1 || text[0] != 'z' {
		t.Errorf("the pipe says %q, %v", text[:n], err)
	}
}

// TestReport: a report contains the exit code, and other messages are not accepted as
// reports.
func TestReport(t *testing.T) {
	for name, tt := range map[string]struct {
		send string // in place of a report; "": a report of code
		code int
		want error // nil: any, with send
	}{
		"success": {code: 0}, "failure": {code: 1}, "signal": {code: 137}, "the highest": {code: 255},
		"garbage": {send: strings.Repeat("x", reportSize)}, "the answer to a job": {send: "\x01\x00"},
		"half of a report": {send: "\x03\x00", want: io.ErrUnexpectedEOF},
	} {
		starter, socket := pair(t)
		f := os.NewFile(uintptr(starter), "starter")
		used := Usage{1, 1 << 40, 3, 4, uint64(tt.code)}
		if tt.send == "" {
			if err := Report(socket, tt.code, used); err != nil {
				t.Errorf("%s: got error %v, want no error", name, err)
			}
		} else if _, err := unix.Write(socket, []byte(tt.send)); err != nil {
			t.Fatal(err)
		}
		_ = unix.Shutdown(socket, unix.SHUT_WR)
		code, u, err := ReadReport(f)
		switch {
		case tt.send == "" && (err != nil || code != tt.code || u != used):
			t.Errorf("%s: got code %d, u %v, error %v; want no error, code %d, u %v", name, code, u, err, tt.code, used)
		case tt.send != "" && (err == nil || tt.want != nil && !errors.Is(err, tt.want)):
			t.Errorf("%s: taken for %d (%v)", name, code, err)
		}
		if _, _, err := ReadReport(f); !errors.Is(err, io.EOF) {
			t.Errorf("%s: after it: %v", name, err)
		}
		_ = f.Close()
		if err := Report(socket, 0, Usage{}); !errors.Is(err, unix.EPIPE) {
			t.Errorf("%s: a report to a starter that has ended: %v", name, err)
		}
	}
}

// TestNoJob: Receive returns at each point at which the starter can end.
func TestNoJob(t *testing.T) {
	whole, err := vectors[1].job.encode()
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) {
		starter, socket := pair(t)
		if n > 0 {
			if err := unix.Sendmsg(starter, whole[:n], unix.UnixRights(0, 1, 2), nil, 0); err != nil {
				t.Fatal(err)
			}
		}
		_ = unix.Close(starter)
		o, err := Receive(socket)
		if err == nil || errors.Is(err, ErrNoJob) != (n == 0) || o.Files != nil {
			t.Errorf("after %d bytes: %v, %v", n, o, err)
		}
	}
}

// TestDescriptorsMissing: a job whose descriptors did not arrive is refused.
func TestDescriptorsMissing(t *testing.T) {
	whole, err := vectors[0].job.encode()
	if err != nil {
		t.Fatal(err)
	}
	starter, socket := pair(t)
	if err := errors.Join(unix.Sendmsg(starter, whole, unix.UnixRights(0, 1), nil, 0), unix.Close(starter)); err != nil {
		t.Fatal(err)
	}
	if o, err := Receive(socket); err == nil {
		t.Errorf("%v is carried out", o)
	}
}

// TestNoAnswer: if a standby ends before it has read a job, or sends another answer, the job is not
// executed.
func TestNoAnswer(t *testing.T) {
	for name, end := range map[string]func(socket int) error{
		"end":              unix.Close,
		"something else":   func(socket int) error { _, err := unix.Write(socket, []byte{2}); return err },
		"no more answers":  func(socket int) error { return unix.Shutdown(socket, unix.SHUT_WR) },
		"no more requests": func(socket int) error { return unix.Shutdown(socket, unix.SHUT_RDWR) },
	} {
		starter, socket, err := Pair()
		if err != nil {
			t.Fatal(err)
		}
		if err := end(socket); err != nil {
			t.Fatal(err)
		}
		if err := Send(starter, &vectors[1].job); err == nil {
			t.Errorf("%s: sent", name)
		}
		_ = unix.Close(starter)
	}
}

// FuzzReceive checks that an accepted message is the encoding of its job.
func FuzzReceive(f *testing.F) {
	for _, v := range vectors {
		b, err := hex.DecodeString(v.hex)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHeader(b)
		if err != nil || len(b) < headerSize+h.size {
			return
		}
		b = b[:headerSize+h.size]
		args, err := decodeText(b[headerSize:])
		if err != nil {
			return
		}
		again, err := (&Job{Args: args, Terminal: h.terminal, Cgroup: h.cgroup, Report: h.report, Limited: h.limited, Files: make([]int, h.files)}).encode()
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("got again %x, error %v; want no error, again %x", again, err, b)
		}
	})
}
