package launcher

import (
	"bytes"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cmsg makes a control message with a length that need not be true.
func cmsg(size uint64, level, kind int32, data ...byte) []byte {
	b := appendControl(nil, level, kind, data)
	b[0], b[1] = byte(size), byte(size>>8)
	return b
}

// TestControlMessages: of the descriptors in control messages, only those that were
// understood can be passed on.
func TestControlMessages(t *testing.T) {
	own := unix.UnixCredentials(&unix.Ucred{Pid: 7, Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid())})
	foreign := unix.UnixCredentials(&unix.Ucred{Pid: 7, Uid: uint32(os.Geteuid()) + 1, Gid: uint32(os.Getegid())})
	info := cmsg(28, unix.IPPROTO_IP, unix.IP_PKTINFO, make([]byte, 12)...)
	two := append(unix.UnixRights(1), unix.UnixRights(-1, 3)...)
	for name, c := range map[string]struct {
		family int
		oob    []byte
		want   control
		errno  error
	}{
		"nothing":                   {unix.AF_UNIX, nil, control{}, nil},
		"less than a header":        {unix.AF_UNIX, make([]byte, 15), control{}, nil},
		"descriptors":               {unix.AF_UNIX, two, control{rights: []int32{1, -1, 3}}, nil},
		"a part of a number":        {unix.AF_UNIX, cmsg(19, unix.SOL_SOCKET, unix.SCM_RIGHTS, 5, 0, 0, 0), control{}, nil},
		"no length":                 {unix.AF_UNIX, cmsg(0, unix.SOL_SOCKET, unix.SCM_RIGHTS), control{}, unix.EINVAL},
		"too long":                  {unix.AF_UNIX, cmsg(25, unix.SOL_SOCKET, unix.SCM_RIGHTS, 5, 0, 0, 0), control{}, unix.EINVAL},
		"too many descriptors":      {unix.AF_UNIX, unix.UnixRights(make([]int, 254)...), control{}, unix.EINVAL},
		"too many in two":           {unix.AF_UNIX, append(unix.UnixRights(make([]int, 200)...), unix.UnixRights(make([]int, 54)...)...), control{}, unix.EINVAL},
		"credentials":               {unix.AF_UNIX, own, control{credentials: true}, nil},
		"credentials of another":    {unix.AF_UNIX, foreign, control{}, unix.EPERM},
		"unknown":                   {unix.AF_UNIX, cmsg(16, unix.SOL_SOCKET, 99), control{}, unix.EINVAL},
		"another level":             {unix.AF_UNIX, info, control{}, nil},
		"of the internet":           {unix.AF_INET, info, control{other: info}, nil},
		"descriptors over internet": {unix.AF_INET, unix.UnixRights(1), control{}, unix.EINVAL},
	} {
		got, errno := parseControl(c.family, c.oob)
		if errno != 0 && errno != c.errno || errno == 0 && c.errno != nil {
			t.Errorf("%s: %v, want %v", name, errno, c.errno)
		}
		if !slices.Equal(got.rights, c.want.rights) || got.credentials != c.want.credentials || !bytes.Equal(got.other, c.want.other) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// FuzzControlMessages: what is made of any control messages is understood in the same way.
func FuzzControlMessages(f *testing.F) {
	f.Add(true, unix.UnixRights(1, 2))
	f.Add(false, cmsg(28, unix.IPPROTO_IP, unix.IP_PKTINFO, make([]byte, 12)...))
	f.Fuzz(func(t *testing.T, internet bool, oob []byte) {
		family := unix.AF_UNIX
		if internet {
			family = unix.AF_INET
		}
		c, errno := parseControl(family, oob)
		if errno != 0 {
			return
		}
		if len(c.rights) > maxRights || internet && (len(c.rights) > 0 || c.credentials) {
			t.Fatalf("%+v", c)
		}
		again, errno := parseControl(family, c.other)
		if errno != 0 || !bytes.Equal(again.other, c.other) {
			t.Fatalf("%x becomes %+v, %v", c.other, again, errno)
		}
	})
}

// TestSkip: the rest of a message is what has not been sent.
func TestSkip(t *testing.T) {
	all := []vector{{10, 2}, {20, 0}, {30, 3}}
	for n, want := range [][]vector{all, {{11, 1}, {20, 0}, {30, 3}}, {{30, 3}}, {{31, 2}}, {{32, 1}}, nil} {
		if got := skip(all, uint64(n)); !slices.Equal(got, want) {
			t.Errorf("after %d: %v, want %v", n, got, want)
		}
	}
	if all[0] != (vector{10, 2}) {
		t.Error("the message has changed")
	}
}

// TestTrustedEnds: a thread that sleeps or has ended is past its call, and one that only
// waits for something without a signal is not, until it has run for long.
func TestTrustedEnds(t *testing.T) {
	var thread trusted
	if thread.end() != 0 || thread.pass(-1, &notification{pid: 1}) {
		t.Error("a call goes on after the end")
	}
	const none = 1 << 30 // no process has this number
	if !isPast(none) {
		t.Error("a thread that has ended holds up the end")
	}
	if isPast(unix.Gettid()) {
		t.Error("this thread does not run")
	}
	running := trusted{threads: map[int]time.Duration{unix.Gettid(): 0}}
	running.prune()
	if len(running.threads) != 1 {
		t.Error("a thread that has just begun counts as past its call")
	}
}
