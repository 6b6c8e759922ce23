package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	attacks["wait"] = func([]string) {
		fmt.Println("ready")
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
	attacks["signal"] = func(args []string) {
		pid, _ := strconv.Atoi(args[0])
		try("kill", unix.Kill(pid, 0))
		try("kill with USR1", unix.Kill(pid, unix.SIGUSR1))
		try("tgkill", unix.Tgkill(pid, pid, 0))
		_, errno := raw(unix.SYS_TKILL, uintptr(pid), 0)
		report("tkill", errno)
		_, errno = raw(unix.SYS_RT_SIGQUEUEINFO, uintptr(pid), uintptr(unix.SIGUSR1), pointer(&[128]byte{8: 0xff, 9: 0xff, 10: 0xff, 11: 0xff}))
		report("rt_sigqueueinfo", errno)
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			held("pidfd_open", err)
			return
		}
		try("pidfd_send_signal", unix.PidfdSendSignal(fd, 0, nil, 0))
		_, err = unix.PidfdGetfd(fd, 0, 0)
		try("pidfd_getfd", err)
	}
	attacks["signal by directory"] = func(args []string) {
		fd, err := unix.Open("/proc/"+args[0], unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			held("open a directory of /proc", err)
			return
		}
		try("pidfd_send_signal", unix.PidfdSendSignal(fd, 0, nil, 0))
		_, err = unix.PidfdGetfd(fd, 0, 0)
		try("pidfd_getfd", err)
		_, errno := raw(unix.SYS_SETNS, uintptr(fd), unix.CLONE_NEWPID)
		report("setns", errno)
		_, errno = raw(unix.SYS_PROCESS_MRELEASE, uintptr(fd), 0)
		report("process_mrelease", errno)
		_, errno = raw(unix.SYS_PROCESS_MADVISE, uintptr(fd), 0, 0, 0, 0)
		report("process_madvise", errno)
	}
	attacks["use devices"] = func([]string) {
		for _, name := range []string{"/dev/null", "/dev/zero", "/dev/full"} {
			broken("write to "+name, open(name, unix.O_WRONLY))
		}
	}
	attacks["look at"] = func(args []string) {
		for _, name := range args {
			try("read "+name, look(name))
		}
	}
	attacks["see"] = func(args []string) {
		// args: a process outside. The attack checks that the host's /proc is here and serves this process.
		for _, name := range []string{"/proc/" + args[0] + "/cmdline", "/proc/self/environ", "/proc/self/maps", "/proc/self/fd/", "/dev/fd/", "/proc/meminfo", "/proc/sys/kernel/osrelease"} {
			broken("read "+name, look(name))
		}
		var pipe [2]int
		broken("make a pipe", unix.Pipe2(pipe[:], unix.O_CLOEXEC))
		broken("open a pipe again", open(fmt.Sprintf("/dev/fd/%d", pipe[1]), unix.O_WRONLY))
	}
	attacks["covered"] = func(args []string) {
		var st unix.Stat_t
		broken("stat", unix.Stat(args[0], &st))
		if st.Mode&unix.S_IFMT != unix.S_IFCHR {
			breach("what covers " + args[0] + " is not there")
		}
	}
	attacks["kill all"] = func([]string) {
		// Signal every process that may be signalled, except this one.
		signal.Ignore(unix.SIGUSR2)
		if err := unix.Kill(-1, unix.SIGUSR2); err != nil {
			held("kill everybody", err)
		}
	}
	attacks["priorities"] = func(args []string) {
		pid, _ := strconv.Atoi(args[0])
		try("setpriority", unix.Setpriority(unix.PRIO_PROCESS, pid, 19)) // no process needs a right to set this value, whatever the present one is
		var cpus unix.CPUSet
		cpus.Set(0)
		try("sched_setaffinity", unix.SchedSetaffinity(pid, &cpus))
		_, errno := raw(unix.SYS_SCHED_SETSCHEDULER, uintptr(pid), 3, pointer(new(int32)))
		report("sched_setscheduler", errno)
		_, errno = raw(unix.SYS_SCHED_SETPARAM, uintptr(pid), pointer(new(int32)))
		report("sched_setparam", errno)
		_, errno = raw(unix.SYS_SCHED_SETATTR, uintptr(pid), pointer(&unix.SchedAttr{Size: 48, Policy: 3}), 0)
		report("sched_setattr", errno)
		_, errno = raw(unix.SYS_IOPRIO_SET, 1, uintptr(pid), 3<<13)
		report("ioprio_set", errno)
		try("setpgid", unix.Setpgid(pid, 0))
	}
	attacks["user's priorities"] = func(args []string) {
		uid, _ := strconv.Atoi(args[0])
		try("setpriority of a user", unix.Setpriority(unix.PRIO_USER, uid, 19))
		_, errno := raw(unix.SYS_IOPRIO_SET, 3, uintptr(uid), 3<<13)
		report("ioprio_set of a user", errno)
		// 0 stands for the caller's user.
		try("setpriority of the user", unix.Setpriority(unix.PRIO_USER, 0, 5))
		_, errno = raw(unix.SYS_IOPRIO_SET, 3, 0, 3<<13)
		report("ioprio_set of the user", errno)
		try("setpriority of the group", unix.Setpriority(unix.PRIO_PGRP, 0, 5))
		_, errno = raw(unix.SYS_IOPRIO_SET, 2, 0, 3<<13)
		report("ioprio_set of the group", errno)
	}
	attacks["lease"] = func(args []string) {
		// args: a readable file of the user.
		fd, err := unix.Open(args[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
		broken("open", err)
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
		try("take a lease", err)
	}
	attacks["limits"] = func(args []string) {
		pid, _ := strconv.Atoi(args[0])
		try("prlimit", unix.Prlimit(pid, unix.RLIMIT_CPU, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}, nil))
	}
	attacks["tasks"] = func(args []string) {
		most, _ := strconv.ParseUint(args[0], 10, 64)
		var limit unix.Rlimit
		broken("read the limit", unix.Getrlimit(unix.RLIMIT_NPROC, &limit))
		if limit.Cur > most || limit.Max > most {
			breach(fmt.Sprintf("the limits are %d and %d", limit.Cur, limit.Max))
		}
		limit.Max++
		try("raise the limit", unix.Setrlimit(unix.RLIMIT_NPROC, &limit))
	}
	attacks["look into"] = func(args []string) {
		dir := "/proc/" + args[0]
		for _, name := range []string{"mem", "environ", "maps", "smaps", "numa_maps", "pagemap", "auxv", "stack", "syscall", "io", "personality", "root/", "cwd/", "fd/0", "fdinfo/", "exe",
			"map_files/", "ns/mnt", "ns/pid", "ns/user", "task/" + args[0] + "/mem", "task/" + args[0] + "/environ"} {
			try("read "+name, look(dir+"/"+name))
		}
		for _, name := range []string{"clear_refs", "coredump_filter", "timerslack_ns", "sched", "autogroup", "attr/current", "uid_map", "setgroups", "loginuid", "oom_adj", "task/" + args[0] + "/comm"} {
			try("write "+name, open(dir+"/"+name, unix.O_WRONLY))
		}
		try("write mem", open(dir+"/mem", unix.O_RDWR))
		try("write oom_score_adj", open(dir+"/oom_score_adj", unix.O_WRONLY))
		try("write comm", open(dir+"/comm", unix.O_WRONLY))
		try("write through root", open(dir+"/root"+args[1], unix.O_RDWR))
		pid, _ := strconv.Atoi(args[0])
		_, errno := raw(unix.SYS_KCMP, uintptr(pid), uintptr(os.Getpid()), 0, 0, 0)
		report("kcmp", errno)
	}
	attacks["any root"] = func(args []string) {
		roots, _ := filepath.Glob("/proc/[0-9]*/root")
		more, _ := filepath.Glob("/proc/[0-9]*/cwd")
		tasks, _ := filepath.Glob("/proc/[0-9]*/task/*/root")
		for _, root := range append(append(roots, more...), tasks...) {
			if open(root+args[0], unix.O_WRONLY) == nil {
				breach("write through " + root)
			}
		}
		held("roots", unix.EACCES)
	}
	attacks["init"] = func(args []string) {
		for _, name := range []string{"mem", "root/", "cwd/", "fd/0", "exe", "environ", "maps", "ns/mnt"} {
			try("read /proc/1/"+name, look("/proc/1/"+name))
		}
		try("write /proc/1/mem", open("/proc/1/mem", unix.O_RDWR))
		var st unix.Stat_t
		if err := unix.Stat("/proc/1/exe", &st); err != nil {
			held("stat /proc/1/exe", err)
		} else {
			try("chmod /proc/1/exe", unix.Chmod("/proc/1/exe", st.Mode&0o7777))
		}
	}
	attacks["unfiltered init"] = func([]string) {
		status, err := os.ReadFile("/proc/1/status")
		if err != nil {
			held("status", err)
			return
		}
		if !strings.Contains(string(status), "Seccomp:\t2") {
			breach("the init is not filtered")
		}
		held("init", unix.EPERM)
	}
	attacks["kill init"] = func([]string) {
		parent := os.Getppid()
		for sig := unix.Signal(1); sig <= 64; sig++ {
			switch sig {
			case unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGCHLD, unix.SIGCONT, unix.SIGPWR, unix.SIGWINCH:
				continue // these signals are passed on to this process, or make the init end all processes
			}
			_ = unix.Kill(parent, sig)
		}
		fmt.Println("alive")
	}
	attacks["orphans"] = func(args []string) {
		// Start processes that leave every group and session, and do not wait for them.
		self, _ := os.Executable()
		for range 8 {
			c := exec.Command(self, "linger", args[0])
			c.SysProcAttr = &unix.SysProcAttr{Setsid: true}
			broken("start", c.Start())
		}
	}
	attacks["linger"] = func(args []string) {
		signal.Ignore(unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT)
		if len(args) < 2 { // start the program once more, as a grandchild
			c := exec.Command("/proc/self/exe", "linger", args[0], "again")
			c.SysProcAttr = &unix.SysProcAttr{Setsid: true}
			_ = c.Start()
		}
		time.Sleep(time.Hour)
	}
	attacks["dump core"] = func([]string) {
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
		_ = unix.Kill(os.Getpid(), unix.SIGQUIT)
		_ = unix.Kill(os.Getpid(), unix.SIGSYS)
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
	attacks["alive"] = func(args []string) {
		fmt.Println("ready")
		if len(args) > 0 {
			_, _ = os.Stdin.Read(make([]byte, 1))
		}
	}
	attacks["flood"] = flood
}

// look opens and reads a file, or lists a directory.
func look(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.IsDir() {
		if strings.HasSuffix(path, "/mem") || strings.Contains(path, "/fd/") || strings.Contains(path, "/ns/") {
			return err
		}
		_, err = f.Read(make([]byte, 1))
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return err
	}
	_, err = f.ReadDir(-1)
	return err
}

func report(what string, errno unix.Errno) {
	if errno == 0 {
		breach(what)
	} else {
		held(what, errno)
	}
}

// flood starts processes that try again and again to move a directory of their own onto a name. It
// prints a line when they have begun. With "end" it then ends without waiting for them, otherwise
// it waits.
func flood(args []string) {
	target, how := args[0], args[1]
	self, err := os.Executable()
	broken("find ourselves", err)
	for i := range 6 {
		own := fmt.Sprintf("%s/own%d", filepath.Dir(target), i)
		broken("mkdir", os.MkdirAll(own+"/hooks", 0o755))
		broken("write", os.WriteFile(own+"/config", []byte("[evil]\n"), 0o644))
		r, w, err := os.Pipe()
		broken("pipe", err)
		c := exec.Command(self, "mover", own, target)
		c.Stdout = w
		c.SysProcAttr = &unix.SysProcAttr{Setsid: true}
		broken("start", c.Start())
		w.Close()
		_, _ = r.Read(make([]byte, 1))
	}
	fmt.Println("ready")
	if how == "wait" {
		time.Sleep(time.Hour)
	}
}

func init() {
	attacks["mover"] = func(args []string) {
		signal.Ignore(unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT)
		from, to := text(args[0]), text(args[1])
		fmt.Println("x")
		for range 200_000_000 {
			if _, errno := raw(unix.SYS_RENAMEAT2, at, from, at, to, 0); errno == 0 {
				time.Sleep(time.Hour)
			}
		}
	}
}
