"""Looks at what stressors in a sandbox must not change, for scripts/stress."""
import hashlib
import os
import stat
import subprocess
import time

# These settings of the kernel change by themselves.
COUNTERS = (
    "fs/dentry-state", "fs/file-nr", "fs/inode-nr", "fs/inode-state", "fs/aio-nr", "fs/quota", "kernel/ns_last_pid", "kernel/random",
    "kernel/pty/nr", "net/netfilter/nf_conntrack_count",
)
# The files in these directories are compared, by their entries in a listing.
TREES = ("/etc", "/boot", "/opt", "/usr/local/bin")


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read().decode(errors="replace")
    except OSError:
        return ""


def run(*arguments):
    return subprocess.run(arguments, capture_output=True, text=True).stdout


def settings():
    """Returns the settings of the kernel."""
    found = {}
    for top, _, names in os.walk("/proc/sys"):
        for name in names:
            path = os.path.join(top, name)
            short = path[len("/proc/sys/"):]
            if not short.startswith(COUNTERS) and os.stat(path).st_mode & stat.S_IRUSR:
                found["setting " + short] = read(path)
    return found


def files(top, contents):
    """Returns what there is in a directory, with a digest of what is in it if that is asked for."""
    found = {}
    for directory, names, others in os.walk(top):
        for name in names + others:
            path = os.path.join(directory, name)
            try:
                info = os.lstat(path)
            except FileNotFoundError:
                continue
            text = f"{info.st_mode:o} {info.st_uid} {info.st_gid} {info.st_nlink} {info.st_size} {info.st_mtime_ns} {info.st_ctime_ns}"
            if stat.S_ISLNK(info.st_mode):
                text += " " + os.readlink(path)
            elif contents and stat.S_ISREG(info.st_mode):
                with open(path, "rb") as f:
                    text += " " + hashlib.sha256(f.read()).hexdigest()
            if contents and not stat.S_ISLNK(info.st_mode):
                text += " " + " ".join(os.listxattr(path))
            found["file " + path] = text
    return found


def devices():
    """Returns the names, kinds and modes in /dev; terminals come and go."""
    found = {}
    for entry in os.scandir("/dev"):
        info = entry.stat(follow_symlinks=False)
        found["device " + entry.path] = f"{info.st_mode:o} {info.st_uid} {info.st_gid} {info.st_rdev}"
    return found


def look(beside):
    """Returns the state of the machine outside, by name."""
    found = settings() | devices() | files(beside, True)
    for tree in TREES:
        found |= files(tree, False)
    for name, text in {
        "mounts": "\n".join(line.split(" - ")[0] for line in read("/proc/self/mountinfo").splitlines()),
        "swap": "\n".join(line.split()[0] for line in read("/proc/swaps").splitlines()),
        "processors": read("/sys/devices/system/cpu/online"),
        "shared memory": run("ipcs", "-m"), "semaphores": run("ipcs", "-s"), "message queues": run("ipcs", "-q"),
        "POSIX shared memory": "\n".join(sorted(os.listdir("/dev/shm"))),
        "addresses": run("ip", "-o", "addr", "show", "scope", "global"), "links": run("ip", "-o", "link"),
        "routes": run("ip", "route", "show", "table", "all"), "rules": run("ip", "rule"),
        "loop devices": run("losetup", "-a"),
        # This value changes if the clock is set: it is the difference between the time and the time
        # since boot.
        "clock": str(round((time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)) / 2)),
    }.items():
        found[name] = text
    return found


def changes(before, now):
    """Returns a line for each difference."""
    found = []
    for name in sorted(before.keys() | now.keys()):
        old, new = (state.get(name, "nothing").splitlines() or [""] for state in (before, now))
        if old != new:
            found.append(f"{name}: {[line for line in old if line not in new]} became {[line for line in new if line not in old]}"[:1000])
    return found
