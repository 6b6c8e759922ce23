"""What scripts/stress does: see there."""
import argparse
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import stress_outside

BACKENDS = ["namespaces", "bwrap", "landlock"]

# These stressors are not run, because they need capabilities that no sandbox has. If a sandbox
# granted them by mistake, the machine would be destroyed, and no report would remain.
DANGEROUS = {
    "reboot": "restarts the machine",
    "watchdog": "opens the watchdog device: the machine restarts if it is not fed",
    "cpu-online": "switches processors off",
    "memhotplug": "switches memory off",
    "efivar": "changes attributes of firmware variables",
    "smi": "has the firmware stop all processors",
    "softlockup": "keeps all processors busy with real-time priority",
    "swap": "makes swap files, and switches swapping to them on",
}
# These stressors do not end in time, even without this sandbox.
ENDLESS = {
    "mmapfork": "writes to all memory that is free, for 10 to 20 s; for ever if it may not have that much",
    "vm-segv": "waits for a child that stops itself to be traced, for ever where nothing may be traced",
}
# Landlock has no separate view of /dev: a policy that permits reading / permits opening the
# machine's devices for reading.
DANGEROUS_LANDLOCK = {
    "dev": "opens each device of the machine, which alone has effects: a watchdog starts",
    "rawdev": "reads the disk of the machine, past all file systems",
}

# This is how much a stressor may use where the default is hundreds of megabytes.
SIZES = {
    "hdd-bytes": "16m", "iomix-bytes": "16m", "fallocate-bytes": "16m", "readahead-bytes": "16m", 
    "fiemap-bytes": "16m", "sync-file-bytes": "16m", "seek-size": "16m", "revio-bytes": "16m", "aiol-requests": "16",
    "vm-bytes": "64m", "mmap-bytes": "64m", "shm-bytes": "2m", "memrate-bytes": "64m", "stream-l3-size": "4m",
    "vm-rw-bytes": "16m", "memfd-bytes": "64m", "mremap-bytes": "16m", "msync-bytes": "16m", "zombie-max": "512", "clone-max": "512",
    "forkheavy-procs": "512", "pthread-max": "256", "fork-max": "16", "vfork-max": "16", "sendfile-size": "1m",
    "splice-bytes": "1m", "vm-splice-bytes": "1m", "tee-bytes": "1m", "dirmany-bytes": "0",
}

# These are the limits for all processes of a case together, which cgroups enforce if root may
# create them, and otherwise for each process.
MEMORY, PROCESSES, ADDRESSES = 2 << 30, 3000, 4 << 30

# A stressor needs this time in addition to its second, to prepare and to clean up.
EXTRA_SECONDS, LEAST_SECONDS = 4, 30
# This is how long the remaining processes may take to end.
SETTLE_SECONDS = 20
# This is how long an orderly end may take.
END_SECONDS = 20

# This fraction of the stressors must be able to work in a sandbox.
LEAST_WORKED = 0.5

# These are the exit codes of stress-ng: success, a stressor failed, no resources, not implemented,
# ended by a signal, ended by itself, no measurement. Other codes mean wrong options, or a launcher
# that did not start stress-ng or was killed.
OWN_CODES = {0, 2, 3, 4, 5, 6, 7}


def read(path):
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def classes():
    """Returns the classes of stress-ng with their stressors, each in the first class alone."""
    # For an unknown class stress-ng prints the names of the classes.
    text = subprocess.run(["stress-ng", "--class", "none"], capture_output=True, text=True).stderr
    names = re.search(r"(?:available|allowed) classes(?: are)?: *(.*)", text)
    if not names:
        sys.exit(f"stress: stress-ng does not tell its classes: {text}")
    found, seen = {}, set()
    for name in names[1].split():
        listed = subprocess.run(["stress-ng", "--class", name + "?"], capture_output=True, text=True)
        members = (listed.stdout + listed.stderr).split("stressors:")[1].split()
        found[name] = members
    # The largest class is last, because most of its stressors are also in other classes.
    ordered = sorted(found, key=lambda name: (len(found[name]), name))
    result = {}
    for name in ordered:
        result[name] = [s for s in found[name] if s not in seen]
        seen.update(found[name])
    return result, seen


def remove(path, deadline):
    """Removes a cgroup. Its last processes may still be ending."""
    while True:
        try:
            return os.rmdir(path)
        except OSError as e:
            if time.monotonic() > deadline:
                return print(f"stress: remove {path}: {e}", file=sys.stderr)
        time.sleep(0.1)


class Groups:
    """A cgroup, in which all of a case runs: what is in it in the end is left."""

    def __init__(self, owner):
        self.paths, self.main = [], None
        if os.geteuid() != 0:
            return
        for line in read("/proc/self/mountinfo").splitlines():
            head, tail = line.split(" - ")
            mount, kind, options = head.split()[4], tail.split()[0], tail.split()[2].split(",")
            if kind == "cgroup2" and not self.main:
                self.main = self.make(mount)
                for path in ["", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"]:
                    os.chown(os.path.join(self.main, path), owner, owner)
                self.write(self.main, "memory.max", MEMORY)
                self.write(self.main, "pids.max", PROCESSES)
            elif kind == "cgroup" and "memory" in options:
                self.write(self.make(mount), "memory.limit_in_bytes", MEMORY)
            elif kind == "cgroup" and "pids" in options:
                self.write(self.make(mount), "pids.max", PROCESSES)

    def make(self, mount):
        self.paths.append(tempfile.mkdtemp(prefix="stress-", dir=mount))
        return self.paths[-1]

    @staticmethod
    def write(path, name, value):
        if os.path.exists(os.path.join(path, name)):  # not without that controller
            with open(os.path.join(path, name), "w") as f:
                f.write(str(value))

    def enter(self):
        for path in self.paths:
            self.write(path, "cgroup.procs", os.getpid())

    def inner(self):
        return sum(len(names) for _, names, _ in os.walk(self.main)) if self.main else 0

    def members(self):
        """Returns the processes of the case by their ids."""
        found = {}
        for path, _, _ in os.walk(self.main) if self.main else []:
            for pid in read(os.path.join(path, "cgroup.procs")).split():
                found[int(pid)] = read(f"/proc/{pid}/comm").strip()
        if not self.main:
            for pid in filter(str.isdigit, os.listdir("/proc")):
                name = read(f"/proc/{pid}/comm").strip()
                if name.startswith("stress-ng"):
                    found[int(pid)] = name
        return found

    def kill(self):
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self):
        self.kill()
        deadline = time.monotonic() + END_SECONDS
        while self.members() and time.monotonic() < deadline:
            time.sleep(0.1)
        for top in self.paths:
            for path, _, _ in os.walk(top, topdown=False):
                remove(path, deadline)


class Case:
    """One backend, as one user, by codex sandbox or by a server."""

    def __init__(self, options, via, uid, backend):
        self.options, self.via, self.uid, self.backend = options, via, uid, backend
        self.name = f"{via}, {backend}, {'root' if uid == 0 else 'user'}"
        self.wrong, self.server, self.log = [], None, None
        self.ran = self.worked = self.seconds = 0
        self.base = tempfile.mkdtemp(prefix="stress", dir="/var/tmp")
        os.chmod(self.base, 0o755)
        for name in ["bin", "work", "beside", "home", "tmp"]:
            path = os.path.join(self.base, name)
            os.mkdir(path, 0o755)
            if name != "bin":
                os.chown(path, uid, uid)
        for name in ["codex", "codex-fs", "codex-linux-sandbox"]:
            shutil.copy2(os.path.join(options.bin, name), os.path.join(self.base, "bin", name))
        self.sentinels()
        self.groups = Groups(uid)
        self.codex = os.path.join(self.base, "bin", "codex")
        # Landlock can only add grants, so it cannot protect names below a writable directory.
        writable = [self.path("work", name) for name in ["", ".git", ".agents", ".codex"]]
        self.profile = json.dumps({"type": "managed", "network": "restricted", "file_system": {"type": "restricted", "entries": [
            {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"},
            *({"path": {"type": "path", "path": "file://" + path.rstrip("/")}, "access": "write"} for path in writable)]}})
        with open(self.path("profile.json"), "w") as f:
            f.write(self.profile)

    def path(self, *names):
        return os.path.join(self.base, *names)

    def sentinels(self):
        """Makes files beside the writable directory that the user could change."""
        for i in range(20):
            with open(self.path("beside", f"f{i}"), "w") as f:
                f.write("as it was\n" * i)
            os.chown(f.name, self.uid, self.uid)
        os.symlink("f1", self.path("beside", "link"))
        os.mkfifo(self.path("beside", "fifo"))

    def environment(self):
        return {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.path("home"), "CODEX_HOME": self.path("home"),
                "TMPDIR": self.path("tmp"), "LANG": "C.UTF-8"}

    def prepare(self):
        """Runs in the child, before its program."""
        self.groups.enter()
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
        if self.uid != os.geteuid():
            os.setgroups([])
            os.setgid(self.uid)
            os.setuid(self.uid)

    def popen(self, arguments, **more):
        # This runs in a directory to which the sandbox may write.
        return subprocess.Popen(arguments, env=self.environment(), cwd=self.path("work"), stdin=subprocess.DEVNULL,
                                preexec_fn=self.prepare, text=True, **more)

    def start(self):
        if self.via != "server":
            return
        self.log = open(self.path("server.log"), "w")
        self.server = self.popen([self.codex, "exec-server", "--listen", "ws://127.0.0.1:0", "--sandbox-backend", self.backend,
                                  "--retain-dir", "none", "--session-ttl", "0s"], stdout=subprocess.PIPE, stderr=self.log)
        self.url = self.server.stdout.readline().strip()

    def command(self, stressing, seconds):
        if self.via == "sandbox":
            return [self.codex, "sandbox", "--backend", self.backend, "--profile-file", self.path("profile.json"), "--", *stressing]
        return [self.codex, "remote", "run", "--url", self.url, "--quiet", "--cwd", self.path("work"), "--sandbox", self.profile,
                "--timeout", f"{seconds}s", "--memory", str(MEMORY), "--pids", str(PROCESSES), "--", *stressing]

    def complain(self, what):
        self.wrong.append(what)
        print(f"WRONG {self.name}: {what}", flush=True)

    def rest(self):
        """Returns what there is of a case between two classes."""
        return len(self.groups.members()), self.groups.inner(), len(os.listdir(self.path("tmp")))

    def settle(self):
        """Waits until nothing changes any more, and returns what there is."""
        before, same = None, 0
        while same < 5:
            now = self.rest()
            same = same + 1 if now == before else 0
            before = now
            time.sleep(0.2)
        return before

    def play(self, chosen):
        """Runs the stressors of each class."""
        began = time.monotonic()
        self.start()
        # The first sandbox is made before anything is counted.
        self.run("true", ["true"], LEAST_SECONDS)
        self.before, self.outside = self.settle(), stress_outside.look(self.path("beside"))
        for name, stressors in chosen.items():
            excluded = DANGEROUS | ENDLESS | (DANGEROUS_LANDLOCK if self.backend == "landlock" else {})
            stressors = [s for s in stressors if s not in excluded]
            if stressors:
                self.stress(name, stressors)
        self.finish()
        self.seconds = time.monotonic() - began

    def stress(self, name, stressors):
        """Runs the stressors of a class, one after the other, and looks for what they have left."""
        self.ran += len(stressors)
        others = sorted(self.options.all - set(stressors))
        sizes = [word for option, size in SIZES.items() if option in self.options.known for word in ("--" + option, size)]
        stressing = ["stress-ng", "--class", name, "--sequential", "1", "--timeout", f"{self.options.seconds}s", "--exclude", ",".join(others),
                     "--temp-path", self.path("work"), "--oomable", "--metrics-brief", *sizes]
        seconds = len(stressors) * (self.options.seconds + EXTRA_SECONDS) + LEAST_SECONDS
        code, output = self.run(name, stressing, seconds)
        if code is not None and code not in OWN_CODES:
            self.complain(f"class {name} ended with {code}: {output[-800:]}")
        self.tally(name, output)
        self.check(name)

    def tally(self, name, output):
        """Counts the stressors that could do something."""
        self.worked += len(re.findall(r"^stress-ng: metrc: \[\d+\] \S+ +[1-9]\d* +\d+\.\d+ +\d+\.\d+ ", output, re.MULTILINE))
        if self.options.verbose:
            for text in re.findall(r"^stress-ng: (?:fail|error|warn).*", output, re.MULTILINE):
                print(f"  {self.name}, class {name}: {text}", flush=True)

    def run(self, name, stressing, seconds):
        """Runs a command in the sandbox and returns its exit code and output; no code if it hung."""
        process = self.popen(self.command(stressing, seconds), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            output, _ = process.communicate(timeout=seconds + END_SECONDS)
        except subprocess.TimeoutExpired:
            self.complain(f"class {name} did not end within {seconds} s")
            process.terminate()
            try:
                output, _ = process.communicate(timeout=END_SECONDS)
            except subprocess.TimeoutExpired:
                self.complain(f"class {name} did not end after SIGTERM")
                process.kill()
                if self.via == "sandbox":
                    self.groups.kill()  # what holds the output open, too
                output, _ = process.communicate()
            return None, output
        if process.returncode == 124 and self.via == "server":
            self.complain(f"class {name} was ended by its limit of {seconds} s: {output[-800:]}")
            return None, output
        return process.returncode, output

    def check(self, name):
        """Looks for what is left, and for what has changed outside."""
        if self.server and self.server.poll() is not None:
            self.complain(f"the server has ended with {self.server.returncode} in class {name}: {read(self.path('server.log'))[-2000:]}")
            self.start()
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            now, changed = self.rest(), stress_outside.changes(self.outside, stress_outside.look(self.path("beside")))
            left = [f"{what}: {n} before, {m} now" for what, n, m in
                    zip(["processes", "cgroups", "temporary files"], self.before, now) if m > n]
            if not left and not changed:
                break
            if time.monotonic() > deadline:
                if left:
                    self.complain(f"left by class {name}: {left}, {self.groups.members()}")
                for line in changed:
                    self.complain(f"changed by class {name}: {line}")
                # Do not report the same change again after the next class.
                self.before, self.outside = now, stress_outside.look(self.path("beside"))
                break
            time.sleep(0.5)
        for entry in os.listdir(self.path("work")):
            subprocess.run(["rm", "-rf", self.path("work", entry)], check=True)

    def finish(self):
        """Ends the server, which must still work, and looks for what is left."""
        code, output = self.run("true", ["true"], LEAST_SECONDS)
        if code != 0:
            self.complain(f"a command in the end: {code}, {output}")
        if self.server:
            self.server.terminate()
            try:
                self.server.wait(timeout=END_SECONDS)
            except subprocess.TimeoutExpired:
                self.complain("the server does not end after SIGTERM")
                self.server.kill()
                self.server.wait()
        deadline = time.monotonic() + SETTLE_SECONDS
        while self.rest() != (0, 0, 0) and time.monotonic() < deadline:
            time.sleep(0.2)
        if self.rest() != (0, 0, 0):
            self.complain(f"processes, cgroups and temporary files in the end: {self.rest()}, {self.groups.members()}, {os.listdir(self.path('tmp'))}")

    def close(self):
        if self.server and self.server.poll() is None:
            self.server.kill()
            self.server.wait()
        if self.log:
            self.log.close()
        self.groups.close()
        shutil.rmtree(self.base, ignore_errors=True)


def works(options, backend):
    """Reports whether a backend works on this machine."""
    out = subprocess.run(["codex-linux-sandbox", "--probe"], executable=os.path.join(options.bin, "codex"), capture_output=True, text=True).stdout
    return f'"{backend}","works":true' in out


def listed(known):
    """Returns a type of arguments: a list of known names."""
    def parse(text):
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return names
    return parse


def parse():
    users = ["root", "user"] if os.geteuid() == 0 else ["user"]
    ways = ["sandbox", "server"]
    parser = argparse.ArgumentParser(prog="stress", usage="see scripts/stress", add_help=False, allow_abbrev=False)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--class", dest="chosen", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--backend", dest="backends", type=listed(BACKENDS), default=BACKENDS)
    parser.add_argument("--via", dest="ways", type=listed(ways), default=ways)
    parser.add_argument("--as", dest="users", type=listed(users), default=users)
    parser.add_argument("-v", dest="verbose", action="store_true")
    options = parser.parse_args()
    options.known = set(re.findall(r"--([a-z0-9-]+)", subprocess.run(["stress-ng", "--help"], capture_output=True, text=True).stdout))
    return options


def choose(options):
    """Returns the classes that were asked for, with their stressors."""
    found, options.all = classes()
    if options.chosen:
        wanted = options.chosen.split(",")
        if set(wanted) - set(found):
            sys.exit(f"stress: there is no class {set(wanted) - set(found)}, but {sorted(found)}")
        found = {name: found[name] for name in wanted}
    if options.only:
        wanted = set(options.only.split(","))
        if wanted - options.all:
            sys.exit(f"stress: there is no stressor {wanted - options.all}")
        found = {name: [s for s in members if s in wanted] for name, members in found.items()}
    return found


def main():
    # With these handlers, the processes that were started are ended.
    for number in [signal.SIGTERM, signal.SIGINT]:
        signal.signal(number, lambda *_: sys.exit("stress: interrupted"))
    options = parse()
    chosen = choose(options)
    uids = {"root": 0, "user": (1 << 30) + os.getpid() if os.geteuid() == 0 else os.geteuid()}
    cases, failed = [], 0
    for user in options.users:
        for backend in options.backends:
            if not works(options, backend):
                sys.exit(f"stress: the backend {backend} does not work here")
            for via in options.ways:
                case = Case(options, via, uids[user], backend)
                try:
                    case.play(chosen)
                finally:
                    case.close()
                cases.append(case)
                failed += len(case.wrong) > 0
                print(f"{case.name}: {case.ran} stressors in {case.seconds:.0f} s, of which {case.worked} could do something, "
                      f"{len(case.wrong)} wrong", flush=True)
    for case in cases:
        if case.worked < case.ran * LEAST_WORKED:
            print(f"WRONG {case.name}: {case.worked} of {case.ran} stressors could do something: that says little")
            failed += 1
    print(f"stress: {len(cases)} cases, {failed} with something wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
