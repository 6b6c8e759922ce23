"""The parts of scripts/services that install, upgrade and remove the packages."""
import glob
import json
import os
import pwd
import re

from guest_suite import JOB, USER, expect, run, until

PACKAGE = 'codex-exec-server'
UNITS = ('codex-exec-server', 'codex-executor', 'codex-rendezvous')
HOME, SOCKET = '/var/lib/codex', '/run/codex/exec-server.sock'
CODEX = '/usr/bin/codex'
# The highest exposure of a service that systemd-analyze security may report. It calls values below
# 5.0 "OK".
EXPOSURE = 4.0
# Directories in which a package may leave files: scripts of packages and services write to them.
WATCHED = ('/etc', '/run', '/usr/lib/systemd/system', '/var/lib/systemd', '/var/tmp', '/tmp')
# Paths below these directories that the system itself writes meanwhile, and the users, which are
# not removed.
IGNORED = re.compile(r'^/run/(systemd|log|services|user|udev|lock|mount)(/|$)|^/etc/(passwd|group|shadow|gshadow|subuid|subgid|\.pwd\.lock)|'
                     r'^/run/(utmp|dbus|credentials|initctl)|^/(tmp|var/tmp)/systemd-private-|^/etc/(\.updated|resolv\.conf)')


# The suite has its own package database. With the database of this machine, triggers of other
# packages would run too; the index of manual pages alone takes minutes on an emulated processor.
ADMIN = '/run/services/dpkg'


def dpkg(*argv):
    return run('dpkg', '--admindir=' + ADMIN, *argv)


def package_of(version, kind):
    path, = glob.glob(JOB + '/packages/' + version + '/*.' + kind)
    return path


# The commands and marks below are those in docs/operations.md.
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), '../docs/operations.md')) as document:
    DOCUMENT = document.read()


def documented_commands():
    """The commands of "From the package to a first command", in their order."""
    section = re.search(r'^### From the package to a first command$(.*?)^##', DOCUMENT, re.M | re.S)
    return re.findall('^    (.*)$', section[1], re.M)


def shell(script):
    """A script of the document, which is for a version of its own, and for machines with sudo."""
    sudo = '''sudo() {
  case $1 in
    -u) user=$2; shift 2; setpriv --reuid "$user" --regid "$user" --clear-groups env "$@" ;;
    dpkg) shift; command dpkg --admindir=%s "$@" >&2 ;;
    *) "$@" ;;
  esac
}
cd %s/packages/0.0.1
''' % (ADMIN, JOB)
    return run('sh', '-c', sudo + script.replace('1.2.3', '0.0.1'))


def present():
    """The paths below WATCHED, and those directly below /var/lib."""
    paths = {'/var/lib/' + name for name in os.listdir('/var/lib')}
    for top in WATCHED:
        for parent, directories, files in os.walk(top):
            paths.update(os.path.join(parent, name) for name in directories + files)
    return {path for path in paths if not IGNORED.search(path)}


def remote(command, *argv, user=None):
    return run(CODEX, 'remote', command, '--url', 'unix://' + SOCKET, *argv, user=user)


def main_pid(unit):
    return int(run('systemctl', 'show', '-p', 'MainPID', '--value', unit).stdout or 0)


def processes_of(name):
    """Command lines of the user's processes."""
    found = []
    for directory in glob.glob('/proc/[0-9]*'):
        try:
            if os.stat(directory).st_uid == pwd.getpwnam(name).pw_uid:
                with open(directory + '/cmdline') as f:
                    found.append(directory[6:] + ' ' + f.read().replace('\0', ' '))
        except (OSError, KeyError):
            continue
    return found


def state(unit):
    return run('systemctl', 'is-active', unit).stdout.strip()


def why(unit):
    return run('journalctl', '--no-pager', '-o', 'cat', '-n', '8', '-u', unit).stdout[-500:]


def installed(kind, install):
    """What holds after an installation, by a function that does it."""
    r = install()
    expect(kind + ': it is installed', r.returncode == 0, r.stderr)
    r = run(CODEX, '--version')
    expect(kind + ': codex is its program', r.stdout.startswith('codex 0.0.1'), r)
    states = [(run('systemctl', 'is-enabled', unit).stdout.strip(), state(unit)) for unit in UNITS]
    expect(kind + ': no service is enabled or runs', states == [('disabled', 'inactive')] * len(UNITS), states)
    mode = oct(os.stat('/etc/codex').st_mode)
    # Debian 12 has an AppArmor that cannot read the launcher's profile, and needs none.
    expect(kind + ': no profile of AppArmor is installed', not os.path.exists('/etc/apparmor.d/codex-linux-sandbox'), '')
    expect(kind + ': services can read their configuration', mode == '0o40755', mode)
    modes = [oct(os.stat(path).st_mode) for path in glob.glob('/etc/codex/*.env') + ['/etc/codex/executor.token']]
    expect(kind + ': the files of options and tokens are for root only', modes == ['0o100600'] * 4, modes)


def units_are_sound():
    """systemd has nothing to say against the units, and its marks are at most those of the document."""
    # For a key that this systemd does not know yet, it prints a warning for each unit.
    new = re.compile(r"Unknown key( name)? 'DelegateSubgroup' in section '?\[?Service")
    r = run('systemd-analyze', 'verify', '--man=no', *(unit + '.service' for unit in UNITS))
    said = [line for line in r.stderr.splitlines() if 'codex' in line and not new.search(line)]
    expect('package: systemd-analyze verify', not said, said)
    for unit in UNITS:
        documented = float(re.search(r'^\| `%s` \|.*\| ([0-9.]+) \|$' % unit, DOCUMENT, re.M)[1])
        r = run('systemd-analyze', 'security', '--no-pager', unit + '.service')
        found = re.search(r'Overall exposure level for \S+: ([0-9.]+)', r.stdout)
        mark = float(found[1]) if found else 99
        expect('package: %s has an exposure of at most %.1f, as documented' % (unit, documented), mark <= documented <= EXPOSURE, r.stdout[-200:] + r.stderr)


def as_documented(commands):
    """From the package to a first confined command, by the document alone. The package is installed."""
    r = shell('\n'.join(commands))
    said = ('codex-agent\n' + HOME + '\n') * 2
    denied = r.stderr.count('Read-only file system')
    expect('package: the commands of the document lead to confined commands', (r.stdout, denied) == (said, 2), r)
    states = [(run('systemctl', 'is-enabled', unit).stdout.strip(), state(unit)) for unit in UNITS]
    expect('package: all services are enabled and run', states == [('enabled', 'active')] * len(UNITS), states + [why(u) for u in UNITS if state(u) != 'active'])
    types = [run('systemctl', 'show', '-p', 'Type', '--value', unit).stdout.strip() for unit in UNITS]
    expect('package: they tell systemd when they are ready', types == ['notify'] * len(UNITS), types)
    mode = oct(os.stat('/etc/codex/executor.token').st_mode)
    expect('package: the token is for root only', mode == '0o100600', mode)
    with open('/etc/codex/executor.token') as f:
        token = f.read().strip()
    with open('/proc/%d/environ' % main_pid('codex-executor')) as f:
        expect('package: the token is in no variable of the server', len(token) > 20 and token not in f.read(), len(token))


def serves():
    r = remote('run', '--', 'sh', '-c', 'id -un; pwd')
    expect('package: a command runs as the user of the service, in its directory', r.stdout == 'codex-agent\n%s\n' % HOME, r)
    r = remote('run', '--', 'true', user=USER)
    expect('package: other users are refused', r.returncode == 255 and 'connect' in r.stderr, r)
    r = remote('run', '--', 'sh', '-c', 'for f in /etc/x /usr/x /var/lib/x /root/x /home/x; do (echo > $f) 2>/dev/null && echo WROTE $f; done; echo > ~/mine && echo > /tmp/mine && echo done')
    expect('package: a command writes in the directory of the service and in /tmp only', r.stdout == 'done\n', r)
    expect('package: the /tmp of the service is its own', not os.path.exists('/tmp/mine'), '/tmp/mine')
    script = 'echo ran; (echo > ../outside) 2>/dev/null && echo WROTE; (ls /proc/%d/root/) >/dev/null 2>&1 && echo SAW; echo > inside && echo done' % main_pid('codex-exec-server')
    r = remote('run', '--', 'mkdir', '-p', HOME + '/work')
    for sandbox in ('workspace-write', 'read-only'):
        r = remote('run', '--sandbox', sandbox, '--cwd', HOME + '/work', '--', 'sh', '-c', script)
        expect('package: a sandboxed command, ' + sandbox, r.stdout == ('ran\ndone\n' if sandbox == 'workspace-write' else 'ran\n'), r)
    limited('limits hold by cgroups')


def limited(what):
    """A command that takes more memory than it may is ended by the kernel, with all it has started."""
    script = "(setsid python3 -c 'x = bytearray(200 << 20)'); echo survived"
    r = remote('exec', '--json', '--no-input', '--memory', '64M', '--require-limits', '--sandbox', 'danger-full-access', '--', 'sh', '-c', script)
    lines = [json.loads(line) for line in r.stdout.splitlines() if line.startswith('{')]
    by = [h['by'] for line in lines for h in line.get('limits') or []]
    cause = [line.get('cause') for line in lines if line['type'] == 'exited']
    output = [line for line in lines if line['type'] not in ('started', 'exited')]
    expect('package: ' + what, (by, cause) == (['cgroup'], ['memory']) and 'survived' not in str(output), r)


def through(*argv):
    """A client of the server that has registered."""
    token = run(CODEX, 'rendezvous', 'token', 'create', '--role', 'harness', '--environment', 'box', user='codex-rendezvous',
                env={'CODEX_HOME': '/var/lib/codex-rendezvous', 'HOME': '/var/lib/codex-rendezvous'}).stdout.strip()
    return run(CODEX, 'remote', '--env', 'box', 'run', *argv,
               env={'CODEX_EXEC_SERVER_NOISE_REGISTRY_URL': 'http://127.0.0.1:8766', 'CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN': token})


def kept_small():
    """Starts a detached process with a limit. systemd has to know DelegateSubgroup for that: with an older one, the
    request is refused, as the service could not be started again."""
    version = int(re.search(r'systemd (\d+)', run('systemctl', '--version').stdout)[1])
    r = remote('run', '--detach', '--name', 'small', '--memory', '100M', '--require-limits', '--', 'sleep', '1000')
    if version < 254:
        expect('package: with systemd %d, no detached process is limited' % version, r.returncode != 0 and 'DelegateSubgroup' in r.stderr, r)
        return False
    expect('package: with systemd %d, a limited detached process starts' % version, r.returncode == 0, r)
    return True


def upgraded():
    """dpkg -i of the next version while a detached process runs."""
    small = kept_small()
    script = 'n=0; while [ ! -e ~/finish ]; do n=$((n+1)); echo tick $n | tee /tmp/ticks; sleep 0.2; done; exit 7'
    r = remote('run', '--detach', '--name', 'ticks', '--', 'sh', '-c', script)
    expect('package: a detached process starts', r.returncode == 0, r)
    until(lambda: 'tick 2' in remote('logs', 'ticks').stdout)
    before = {unit: main_pid(unit) for unit in UNITS}
    running = [p for p in processes_of('codex-agent') if 'tick $n' in p]
    r = dpkg('-i', package_of('0.0.2', 'deb'))
    expect('package: dpkg -i of the next version', r.returncode == 0, r.stderr)
    after = {unit: main_pid(unit) for unit in UNITS}
    programs = {unit: os.readlink('/proc/%d/exe' % pid) for unit, pid in after.items() if pid}
    expect('package: each service runs the new program', all(after[u] not in (0, before[u]) for u in UNITS) and
           set(programs.values()) == {'/usr/lib/codex-exec-server/codex'}, (before, after, programs, [why(u) for u in UNITS if state(u) != 'active']))
    r = run(CODEX, '--version')
    expect('package: codex has the next version', r.stdout.startswith('codex 0.0.2'), r)
    expect('package: the detached process is the same', running and set(running) <= set(processes_of('codex-agent')), (running, processes_of('codex-agent')))

    def ticks():
        return len(re.findall('^tick', remote('logs', 'ticks').stdout, re.M))
    seen = ticks()
    expect('package: it writes more, which the new server has', seen > 0 and until(lambda: ticks() > seen), remote('logs', 'ticks'))
    r = remote('logs', 'ticks')
    expect('package: its /tmp is there', seen > 0 and 'ticks' not in r.stderr + r.stdout.replace('tick ', ''), r.stdout[-300:] + r.stderr)
    r = remote('run', '--', 'cat', '/tmp/ticks')
    expect('package: commands of the new server have the same /tmp', r.stdout.startswith('tick '), r)
    r = remote('run', '--', 'sh', '-c', ': > ~/finish')
    r = remote('wait', 'ticks')
    expect('package: its exit code reaches a client of the new server', r.returncode == 7, r)
    r = through('--', 'id', '-un')
    expect('package: the server has registered again', r.stdout == 'codex-agent\n', r)
    limited('limits hold after the upgrade')
    if small:
        r = remote('ps')
        expect('package: the limited detached process goes on', 'small' in r.stdout and any('sleep 1000' in p for p in processes_of('codex-agent')), r)


def purged(before):
    r = remote('run', '--detach', '--name', 'stays', '--', 'sleep', '1000')
    expect('package: a detached process is there before the removal', r.returncode == 0, r)
    listed = [path for path in dpkg('-L', PACKAGE).stdout.splitlines() if not os.path.isdir(path)]
    r = dpkg('-r', PACKAGE)
    expect('package: dpkg -r', r.returncode == 0, r.stderr)
    expect('package: no service runs', [state(unit) for unit in UNITS] == ['inactive'] * len(UNITS), [state(unit) for unit in UNITS])
    expect('package: no process of the services is left', until(lambda: not processes_of('codex-agent') + processes_of('codex-rendezvous'), 60),
           processes_of('codex-agent') + processes_of('codex-rendezvous'))
    kept = [path for path in (HOME + '/work/inside', '/etc/codex/executor.env') if not os.path.exists(path)]
    expect('package: without purge the data and the options stay', not kept, kept)
    r = dpkg('-P', PACKAGE)
    expect('package: dpkg -P', r.returncode == 0, r.stderr)
    left = [path for path in listed if os.path.lexists(path)]
    expect('package: no file of the package is left', len(listed) > 20 and not left, left or listed)
    left = sorted(present() - before)
    expect('package: nothing else is left', not left, left)
    users = [name for name in ('codex-agent', 'codex-rendezvous') if name not in {p.pw_name for p in pwd.getpwall()}]
    expect('package: the users stay, as is documented', not users, users)


def packages():
    for name in ('info', 'updates', 'triggers'):
        os.makedirs(ADMIN + '/' + name)
    open(ADMIN + '/status', 'w').close()
    before = present()
    commands = documented_commands()
    installed('package', lambda: shell(commands[0]))
    r = dpkg('--verify', PACKAGE)
    expect('package: the files are those of the package', (r.returncode, r.stdout) == (0, ''), r)
    units_are_sound()
    as_documented(commands[1:])
    serves()
    upgraded()
    purged(before)


def rpm(*argv):
    return run('rpm', '--dbpath', '/run/services/rpm', *argv)


def rpm_package():
    """The same scripts as rpm calls them, which is in another order and with numbers. Of what the package
    needs, nothing is in the database: --nodeps."""
    before = present()
    installed('rpm', lambda: rpm('-i', '--nodeps', package_of('0.0.1', 'rpm')))
    r = run('systemctl', 'start', 'codex-exec-server')
    expect('rpm: the server starts', r.returncode == 0, r.stderr + why('codex-exec-server'))
    r = remote('run', '--detach', '--name', 'stays', '--', 'sleep', '1000')
    expect('rpm: a detached process starts', r.returncode == 0, r)
    pid = main_pid('codex-exec-server')
    r = rpm('-U', '--nodeps', package_of('0.0.2', 'rpm'))
    expect('rpm: the next version is installed', r.returncode == 0, r.stderr)
    r = run(CODEX, '--version')
    expect('rpm: codex has the next version', r.stdout.startswith('codex 0.0.2'), r)
    expect('rpm: the server was started anew', main_pid('codex-exec-server') not in (0, pid), pid)
    r = remote('ps')
    expect('rpm: the detached process goes on', 'stays' in r.stdout and any('sleep 1000' in p for p in processes_of('codex-agent')), r)
    listed = rpm('-ql', PACKAGE).stdout.splitlines()
    r = rpm('-e', PACKAGE)
    expect('rpm: it is removed', r.returncode == 0, r.stderr)
    expect('rpm: no service runs', [state(unit) for unit in UNITS] == ['inactive'] * len(UNITS), [state(unit) for unit in UNITS])
    expect('rpm: no process of the services is left', until(lambda: not processes_of('codex-agent'), 60), processes_of('codex-agent'))
    left = [path for path in listed if os.path.lexists(path)]
    within = [(path, os.listdir(path)) for path in left if os.path.isdir(path)]
    expect('rpm: no file or directory of the package is left', len(listed) > 20 and not left, (left or listed, within))
    # rpm has no purge.
    left = sorted(path for path in present() - before if not re.match('/etc/codex|/var/lib/codex$', path))
    expect('rpm: nothing else is left but data and options', not left, left)
