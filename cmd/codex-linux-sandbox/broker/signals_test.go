package broker_test

import (
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// outsider is the variable with the number of a process outside of the sandbox.
const outsider = "CODEX_BROKER_OUTSIDER"

// sending are the calls that send a signal to a process.
var sending = map[string]func(pid int) error{
	"kill":         func(pid int) error { return unix.Kill(pid, unix.SIGUSR1) },
	"kill a group": func(pid int) error { return unix.Kill(-pid, unix.SIGUSR1) },
	"tkill":        func(pid int) error { return three(unix.SYS_TKILL, pid, int(unix.SIGUSR1), 0) },
	"tgkill":       func(pid int) error { return unix.Tgkill(pid, pid, unix.SIGUSR1) },
	"rt_sigqueueinfo": func(pid int) error {
		info := unix.Siginfo{Signo: int32(unix.SIGUSR1), Code: -1} // SI_QUEUE
		_, _, errno := syscall.Syscall(unix.SYS_RT_SIGQUEUEINFO, uintptr(pid), uintptr(unix.SIGUSR1), uintptr(unsafe.Pointer(&info)))
		return nilOr(errno)
	},
	"rt_tgsigqueueinfo": func(pid int) error {
		info := unix.Siginfo{Signo: int32(unix.SIGUSR1), Code: -1}
		_, _, errno := syscall.Syscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(pid), uintptr(pid), uintptr(unix.SIGUSR1), uintptr(unsafe.Pointer(&info)), 0, 0)
		return nilOr(errno)
	},
	"pidfd_send_signal": func(pid int) error {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.PidfdSendSignal(fd, unix.SIGUSR1, nil, 0)
	},
}

func nilOr(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

func three(number uintptr, a, b, c int) error {
	_, _, errno := syscall.Syscall(number, uintptr(a), uintptr(b), uintptr(c))
	return nilOr(errno)
}

// signals sends signals to a process outside, the init and the launcher, which must not get them, and then to a child and to itself, which
// must. The errors of what must work begin with "inside", and are ETIME if the signal does not arrive.
func signals(string) map[string]syscall.Errno {
	results := make(map[string]syscall.Errno)
	outside, _ := strconv.Atoi(os.Getenv(outsider))
	for name, send := range sending {
		for who, pid := range map[string]int{"a process outside": outside, "the init": os.Getppid(), "the process with the number 1": 1} {
			if name != "kill a group" || who == "a process outside" {
				results[name+" to "+who] = errno(send(pid))
			}
		}
		child := exec.Command("sleep", "100")
		child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := child.Start(); err != nil {
			results["inside: start"] = errno(err)
			continue
		}
		err := send(child.Process.Pid)
		if err == nil {
			err = endedBy(child, unix.SIGUSR1)
		} else {
			_ = child.Process.Kill()
			_ = child.Wait()
		}
		results["inside: "+name+" to a child"] = errno(err)
	}
	arrived := make(chan os.Signal, 1)
	signal.Notify(arrived, unix.SIGUSR2)
	for name, send := range map[string]func() error{
		"kill":   func() error { return unix.Kill(os.Getpid(), unix.SIGUSR2) },
		"kill 0": func() error { return unix.Kill(0, unix.SIGUSR2) },
		"tgkill": func() error { return unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGUSR2) },
		"tkill":  func() error { return three(unix.SYS_TKILL, unix.Gettid(), int(unix.SIGUSR2), 0) },
		"pidfd self": func() error {
			fd, err := unix.PidfdOpen(os.Getpid(), 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.PidfdSendSignal(fd, unix.SIGUSR2, nil, 0)
		},
	} {
		err := send()
		if err == nil {
			select {
			case <-arrived:
			case <-time.After(20 * time.Second):
				err = unix.ETIME
			}
		}
		results["inside: "+name+" to itself"] = errno(err)
	}
	return results
}

// endedBy returns ETIME unless a signal ends a process.
func endedBy(child *exec.Cmd, want syscall.Signal) error {
	late := time.AfterFunc(20*time.Second, func() { _ = child.Process.Kill() })
	defer late.Stop()
	_ = child.Wait()
	if got := child.ProcessState.Sys().(syscall.WaitStatus); !got.Signaled() || got.Signal() != want {
		return unix.ETIME
	}
	return nil
}

func TestSignalsStayInside(t *testing.T) {
	eachVersion(t, func(t *testing.T, version int) {
		outside := exec.Command("sleep", "100")
		outside.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
		must(t, outside.Start())
		defer func() { _ = outside.Wait() }()
		defer func() { _ = outside.Process.Kill() }()
		t.Setenv(outsider, strconv.Itoa(outside.Process.Pid))
		for name, got := range act(t, workspace(t), version, "signals") {
			inside := len(name) > 6 && name[:6] == "inside"
			if inside && got != 0 {
				t.Errorf("%s: got %v, want success", name, got)
			}
			if !inside && got != unix.EPERM && got != unix.ESRCH {
				t.Errorf("%s: got %v, want EPERM or ESRCH", name, got)
			}
		}
		if err := outside.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("the process outside has ended: %v", err)
		}
	})
}
