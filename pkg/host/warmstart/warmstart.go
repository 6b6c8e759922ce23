// Package warmstart passes work to a program that was started before the work was known. The start
// of a Go program and the first use of its memory take 2 of the 5 ms that the start of a sandboxed
// command takes; docs/performance.md has the numbers.
//
// # The contract
//
// The starter calls Pair, starts the program with the standby's end of the socket, and keeps the
// other end. The program, called the standby, initializes the state that does not depend on the
// work, and calls Receive, which waits.
//
// When there is work, the starter calls Send with one Job: arguments and descriptors. The standby
// then acts as if it had been started with these, and ends when the job has ended. It takes no
// second job. So no data of one job can reach another, and process id, exit status, signals and
// session work as for any child. The standby keeps the name, environment, working directory and
// cgroup with which it was started. If the starter closes its end before it sends a job, Receive
// returns ErrNoJob, and the standby ends.
//
// Send returns nil when the standby has the whole job. If Send returns an error, nothing has run:
// the starter kills the standby and starts the program. Scenario: the standby is killed while the
// job is being sent. Without an answer the starter could not know whether the command runs.
//
// With Job.Report the standby may report the exit code before it ends (Report, ReadReport), at most
// once. After the report it holds no descriptor of the job for whose end a reader could be waiting,
// and its exit status gives no new information. Scenario: the command of a sandbox has ended, and
// the kernel takes a millisecond or more to free the namespaces, the memory and the threads of the
// launcher. The starter answers its client meanwhile, and still waits for the end of the standby,
// and reaps it.
//
// # The messages
//
// The job is one message over a stream socket:
//
//	offset 0   "cxo1", the version of the format
//	offset 4   the size of the text in bytes, little endian, at most MaxText
//	offset 8   flags: 1 says that descriptor 0 becomes the controlling terminal,
//	           2 that the last descriptor is the directory of a cgroup,
//	           4 that the standby may report the exit code before it ends,
//	           8 that its children must be in that cgroup
//	offset 9   the number of descriptors, 3 to MaxFiles
//	offset 10  two zero bytes
//	offset 12  the text: each argument with a zero byte behind it
//
// The descriptors are sent as SCM_RIGHTS with the first byte. The first three become standard
// input, output and error. The answer is one byte, 1. A report is 42 bytes: 3, the code, and the
// used resources (Usage), little endian.
package warmstart

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// MaxText bounds the arguments of a job. It is the kernel's limit for a program that is
	// started: a quarter of the stack limit, which is 8 MiB.
	MaxText = 2 << 20
	// MaxFiles bounds the descriptors of a job. The launcher gets seven.
	MaxFiles = 16
	// standardFiles is the number of descriptors that each job has.
	standardFiles = 3
	headerSize    = 12
	flagTerminal  = 1
	flagCgroup    = 2
	flagReport    = 4
	flagLimited   = 8
	allFlags      = flagTerminal | flagCgroup | flagReport | flagLimited
	// sendTime is how many seconds it may take to send a job, and then to receive its answer.
	// Without a limit, a stopped standby would block its starter.
	sendTime = 5
	answer   = 1
	// reported is the first byte of a report.
	reported   = 3
	reportSize = 2 + 8*5
)

var magic = [4]byte{'c', 'x', 'o', '1'}

// ErrNoJob means that the starter has closed its end without sending a job.
var ErrNoJob = errors.New("no job came")

// Job describes the work of a standby.
type Job struct {
	// Args are the arguments, without the program's name. They contain no NUL.
	Args []string
	// Terminal makes descriptor 0 the controlling terminal.
	Terminal bool
	// Cgroup means that the last of Files is the directory of a cgroup, in which
	// the standby starts its children. The standby itself stays in its own: moving
	// a running process into another cgroup takes up to 20 ms.
	Cgroup bool
	// Limited means that the cgroup limits the children, so they must not be started elsewhere.
	Limited bool
	// Report means that the starter reads a report of the exit code: see ReadReport.
	Report bool
	// Files are the descriptors: standard input, output, error, and further ones.
	Files []int
}

// encode returns the message of a job.
func (j *Job) encode() ([]byte, error) {
	size := 0
	for _, a := range j.Args {
		if strings.IndexByte(a, 0) >= 0 {
			return nil, errors.New("an argument holds a NUL byte")
		}
		size += len(a) + 1
	}
	if size > MaxText || len(j.Files) > MaxFiles || len(j.Files) < standardFiles {
		return nil, fmt.Errorf("%d bytes of arguments and %d descriptors cannot be sent", size, len(j.Files))
	}
	b := make([]byte, headerSize, headerSize+size)
	copy(b, magic[:])
	binary.LittleEndian.PutUint32(b[4:], uint32(size))
	if j.Terminal {
		b[8] = flagTerminal
	}
	if j.Cgroup {
		b[8] |= flagCgroup
	}
	if j.Report {
		b[8] |= flagReport
	}
	if j.Limited {
		b[8] |= flagLimited
	}
	b[9] = byte(len(j.Files))
	for _, a := range j.Args {
		b = append(append(b, a...), 0)
	}
	return b, nil
}

// header is the first part of a message.
type header struct {
	size, files                       int
	terminal, cgroup, report, limited bool
}

// decodeHeader checks the first bytes of a message, so that no memory is allocated for a size that
// is too large.
func decodeHeader(b []byte) (h header, err error) {
	if len(b) < headerSize || [4]byte(b) != magic {
		return h, errors.New("the job has an unknown format")
	}
	h.size, h.files = int(binary.LittleEndian.Uint32(b[4:])), int(b[9])
	h.terminal, h.cgroup, h.report = b[8]&flagTerminal != 0, b[8]&flagCgroup != 0, b[8]&flagReport != 0
	h.limited = b[8]&flagLimited != 0
	least := standardFiles
	if h.cgroup {
		least++
	}
	if h.size > MaxText || h.files < least || h.files > MaxFiles || b[8] > allFlags || h.limited && !h.cgroup || b[10] != 0 || b[11] != 0 {
		return h, errors.New("the job is malformed")
	}
	return h, nil
}

// decodeText splits the text of a message into its arguments.
func decodeText(text []byte) ([]string, error) {
	if len(text) == 0 {
		return nil, nil
	}
	if text[len(text)-1] != 0 {
		return nil, errors.New("the job's last argument has no end")
	}
	return strings.Split(string(text[:len(text)-1]), "\x00"), nil
}

// Pair returns the two ends of a socket pair for one job, both closed on exec.
func Pair() (starter, standby int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("make a socket pair: %w", err)
	}
	for _, option := range []int{unix.SO_SNDTIMEO, unix.SO_RCVTIMEO} {
		if err := unix.SetsockoptTimeval(fds[0], unix.SOL_SOCKET, option, &unix.Timeval{Sec: sendTime}); err != nil {
			_, _ = unix.Close(fds[0]), unix.Close(fds[1])
			return -1, -1, fmt.Errorf("limit the time of a job: %w", err)
		}
	}
	return fds[0], fds[1], nil
}

// Send sends the job of a standby, and returns when the standby has it. If Send returns an error,
// the caller must kill the standby: it has no job or a part of a job, or its answer took too long.
func Send(socket int, j *Job) error {
	b, err := j.encode()
	if err != nil {
		return err
	}
	rights := unix.UnixRights(j.Files...)
	for len(b) > 0 {
		n, err := unix.SendmsgN(socket, b, rights, nil, unix.MSG_NOSIGNAL)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("send the job: %w", err)
		}
		b, rights = b[n:], nil
	}
	taken := []byte{0}
	if err := readFull(socket, taken); err != nil {
		return err
	}
	if taken[0] != answer {
		return errors.New("the standby's answer is malformed")
	}
	return nil
}

// Receive waits for the job. It returns ErrNoJob if the starter closes its end. The descriptors
// have close-on-exec set; if Receive returns an error, none of them is open.
func Receive(socket int) (j Job, err error) {
	defer func() {
		if err != nil {
			for _, fd := range j.Files {
				_ = unix.Close(fd)
			}
			j = Job{}
		}
	}()
	head := make([]byte, headerSize)
	rest, err := j.first(socket, head)
	if err == nil {
		err = readFull(socket, rest)
	}
	if err != nil {
		return j, err
	}
	h, err := decodeHeader(head)
	if err != nil {
		return j, err
	}
	if len(j.Files) != h.files {
		return j, fmt.Errorf("the job has %d descriptors of %d", len(j.Files), h.files)
	}
	text := make([]byte, h.size)
	if err := readFull(socket, text); err != nil {
		return j, err
	}
	j.Terminal, j.Cgroup, j.Report, j.Limited = h.terminal, h.cgroup, h.report, h.limited
	if j.Args, err = decodeText(text); err != nil {
		return j, err
	}
	if err := unix.Sendto(socket, []byte{answer}, unix.MSG_NOSIGNAL, nil); err != nil {
		return j, fmt.Errorf("answer: %w", err)
	}
	return j, nil
}

// first reads the beginning of the header, with the descriptors, and returns the part of the header
// that is still missing.
func (j *Job) first(socket int, head []byte) (rest []byte, err error) {
	control := make([]byte, unix.CmsgSpace(4*MaxFiles))
	var n, size, flags int
	for {
		n, size, flags, _, err = unix.Recvmsg(socket, head, control, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("wait for a job: %w", err)
	}
	if n == 0 {
		return nil, ErrNoJob
	}
	messages, err := unix.ParseSocketControlMessage(control[:size])
	for i := range messages {
		if fds, e := unix.ParseUnixRights(&messages[i]); e == nil {
			j.Files = slices.Concat(j.Files, fds)
		}
	}
	if err == nil && flags&unix.MSG_CTRUNC != 0 {
		err = errors.New("the job has too many descriptors")
	}
	return head[n:], err
}

// readFull fills b.
func readFull(socket int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Read(socket, b)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("read from the other end: %w", err)
		case n == 0:
			return io.ErrUnexpectedEOF
		default:
			b = b[n:]
		}
	}
	return nil
}

// Usage is the resource usage of a job: processor time in microseconds, the peak memory
// of one process in KiB, and blocks of 512 bytes read from and written to storage, as in
// struct rusage.
type Usage struct{ User, System, MaxRSS, Read, Written uint64 }

// UsageOf returns the part of a struct rusage that a report has.
func UsageOf(r *unix.Rusage) Usage {
	micros := func(t unix.Timeval) uint64 { return uint64(t.Sec)*1e6 + uint64(t.Usec) }
	return Usage{micros(r.Utime), micros(r.Stime), uint64(r.Maxrss), uint64(r.Inblock), uint64(r.Oublock)}
}

// Report sends the exit code of the job, and its resource usage, to the starter before the standby
// ends. An error means that the starter no longer waits for it.
func Report(socket, code int, u Usage) error {
	b := append(make([]byte, 0, reportSize), reported, byte(code))
	for _, v := range []uint64{u.User, u.System, u.MaxRSS, u.Read, u.Written} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return unix.Sendto(socket, b, unix.MSG_NOSIGNAL, nil)
}

// ReadReport waits for a report. The error is io.EOF if the standby has ended without
// one; otherwise it is an error of r, or means that the report is malformed.
func ReadReport(r io.Reader) (code int, u Usage, err error) {
	var b [reportSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, u, err
	}
	if b[0] != reported {
		return 0, u, errors.New("the standby's report is malformed")
	}
	for i, v := range []*uint64{&u.User, &u.System, &u.MaxRSS, &u.Read, &u.Written} {
		*v = binary.LittleEndian.Uint64(b[2+8*i:])
	}
	return int(b[1]), u, nil
}
