package broker

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"codex.internal/cmd/codex-linux-sandbox/notify"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// Probe returns an error if a broker cannot work on this host. It does not install a filter: only that shows whether another
// program supervises this one.
func Probe() error {
	// The kernel looks at the flags first, and then finds no filter.
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, 0)
	switch errno {
	case unix.EFAULT:
	case unix.EINVAL:
		return errors.New("this kernel cannot let calls wait for the broker; Linux 5.19 is needed (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)")
	default:
		return fmt.Errorf("ask for a filter that stops calls (seccomp): %w", errno)
	}
	if scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); err == nil && strings.TrimSpace(string(scope)) > "1" {
		return fmt.Errorf("the memory of the command cannot be read: kernel.yama.ptrace_scope is %s, and must be 0 or 1", strings.TrimSpace(string(scope)))
	}
	here := []byte{1}
	there := make([]byte, 1)
	if err := notify.ReadMemory(os.Getpid(), addressOf(here), there); err != nil || there[0] != 1 {
		return fmt.Errorf("the memory of the command cannot be read, neither by process_vm_readv nor by /proc/PID/mem: %w", err)
	}
	return nil
}

// foldingTypes are file systems on which names of other case, or short names, lead to the same file, by their number in statfs.
var foldingTypes = map[int64]string{
	unix.MSDOS_SUPER_MAGIC: "FAT", unix.EXFAT_SUPER_MAGIC: "exFAT", 0x5346544e: "NTFS", 0x7366746e: "NTFS",
	0x482b: "HFS+", 0x4244: "HFS", unix.SMB_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB",
}

// foldsCase is FS_CASEFOLD_FL.
const foldsCase = 0x40000000

// RefuseRoots returns an error if a writable root of a plan has directories in which other names lead to a protected file.
func RefuseRoots(p *plan.Plan) error {
	for _, m := range p.Mounts {
		if m.Kind != plan.BindWritable {
			continue
		}
		if err := refuseRoot(m.Target); err != nil {
			return err
		}
	}
	return nil
}

func refuseRoot(name string) error {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // the command cannot use it either, or it has vanished
	}
	defer unix.Close(fd)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return fmt.Errorf("look at the file system of %s: %w", name, err)
	}
	if kind := foldingTypes[int64(fs.Type)]; kind != "" {
		return fmt.Errorf("it cannot protect names in %s, because several names lead to the same file on %s", name, kind)
	}
	if flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS); err == nil && flags&foldsCase != 0 {
		return fmt.Errorf("it cannot protect names in %s, because this directory ignores case", name)
	}
	return nil
}

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }
