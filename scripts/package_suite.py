"""The part of scripts/services that installs, upgrades and purges the package for Debian."""
import glob
import os
import pwd
import re

from guest_suite import JOB, USER, expect, run, until

PACKAGE = 'codex-exec-server'
UNITS = ('codex-exec-server', 'codex-executor', 'codex-rendezvous')
HOME, SOCKET = '/var/lib/codex', '/run/codex/exec-server.sock'
CODEX = '/usr/bin/codex'
# The most that systemd-analyze security may give the server that registers: above it is "MEDIUM".
EXPOSURE = 4.0
# Where a package may leave something: what scripts of packages and services write to.
WATCHED = ('/etc', '/run', '/usr/lib/systemd/system', '/var/lib/systemd', '/var/tmp', '/tmp')
# What the system itself writes below those meanwhile, and the users, which stay.
IGNORED = re.compile(r'^/run/(systemd|log|services|user|udev|lock)/|^/etc/(passwd|group|shadow|gshadow|subuid|subgid|\.pwd\.lock)|'
                     r'^/run/(utmp|dbus|credentials|initctl|systemd|log|user)|^/(tmp|var/tmp)/systemd-private-|^/etc/(\.updated|resolv\.conf)')


# A database of packages of its own: with that of this machine the triggers of others run too, of
# which the index of manual pages alone takes minutes on an emulated processor.
ADMIN = '/run/services/dpkg'


def dpkg(*argv):
    return run('dpkg', '--admindir=' + ADMIN, *argv, timeout=120)


def install(version):
    return dpkg('-i', *glob.glob(JOB + '/packages/' + version + '/*.deb'))


def present():
    """The paths below WATCHED, and those directly below /var/lib."""
    paths = {'/var/lib/' + name for name in os.listdir('/var/lib')}
    for top in WATCHED:
        for parent, directories, files in os.walk(top):
            paths.update(os.path.join(parent, name) for name in directories + files)
    return {path for path in paths if not IGNORED.search(path)}


def remote(command, *argv, env=None, user=None, url=True):
    return run(CODEX, 'remote', command, *(('--url', 'unix://' + SOCKET) if url else ()), *argv, env=env, user=user)


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


def start(unit):
    r = run('systemctl', 'start', unit)
    running = r.returncode == 0 and state(unit) == 'active'
    expect('package: %s starts' % unit, running, r.stderr + why(unit))
    if not running:
        raise RuntimeError('nothing can be shown without ' + unit)


def installed():
    r = install('0.0.1')
    expect('package: dpkg -i', r.returncode == 0, r.stderr)
    r = dpkg('--verify', PACKAGE)
    expect('package: the files are those of the package', (r.returncode, r.stdout) == (0, ''), r)
    r = run(CODEX, '--version')
    expect('package: codex is its program', r.stdout.startswith('codex 0.0.1'), r)
    states = [(run('systemctl', 'is-enabled', unit).stdout.strip(), state(unit)) for unit in UNITS]
    expect('package: no service is enabled or runs', states == [('disabled', 'inactive')] * len(UNITS), states)
    mode = oct(os.stat('/etc/codex').st_mode)
    expect('package: services can read their configuration', mode == '0o40755', mode)
    modes = [oct(os.stat(path).st_mode) for path in glob.glob('/etc/codex/*.env')]
    expect('package: the files of options are for root only', modes == ['0o100600'] * 3, modes)


def exposure():
    """The marks of systemd are at most those that docs/operations.md has."""
    document = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../docs/operations.md')
    with open(document) as f:
        said = re.search(r'`systemd-analyze security` gives the servers\s+at most ([0-9.]+)\s+and the rendezvous service at most ([0-9.]+)', f.read())
    documented = dict(zip(UNITS, (float(said[1]), float(said[1]), float(said[2]))))
    for unit in UNITS:
        r = run('systemd-analyze', 'security', '--no-pager', unit + '.service')
        found = re.search(r'Overall exposure level for \S+: ([0-9.]+)', r.stdout)
        mark = float(found[1]) if found else 99
        expect('package: %s has an exposure of at most %.1f, as documented' % (unit, documented[unit]), mark <= documented[unit], r.stdout[-200:] + r.stderr)
        if unit == 'codex-executor':
            expect('package: the exposure of the server that registers is at most %.1f' % EXPOSURE, mark <= EXPOSURE, mark)


def serves():
    start('codex-exec-server')
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
    r = remote('exec', '--json', '--no-input', '--memory', '64M', '--require-limits', '--sandbox', 'danger-full-access', '--', 'true')
    expect('package: limits hold by cgroups', r.returncode == 0 and '"by":"cgroup"' in r.stdout.replace(' ', ''), r)


def registers():
    """The rendezvous service, the server that registers there, and a client of it."""
    token = {}
    state_home = {'CODEX_HOME': '/var/lib/codex-rendezvous', 'HOME': '/var/lib/codex-rendezvous'}
    start('codex-rendezvous')
    for role in ('executor', 'harness'):
        r = run(CODEX, 'rendezvous', 'token', 'create', '--role', role, '--environment', 'box', env=state_home, user='codex-rendezvous')
        token[role] = r.stdout.strip()
    with open('/etc/codex/executor.env', 'w') as f:
        f.write('CODEX_RENDEZVOUS_URL=http://127.0.0.1:8766\nCODEX_ENVIRONMENT_ID=box\nCODEX_RENDEZVOUS_TOKEN=%s\n' % token['executor'])
    os.chmod('/etc/codex/executor.env', 0o600)
    start('codex-executor')
    client = {'CODEX_EXEC_SERVER_NOISE_REGISTRY_URL': 'http://127.0.0.1:8766', 'CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN': token['harness']}

    def through(*argv):
        return run(CODEX, 'remote', '--env', 'box', 'run', *argv, env=client)
    r = through('--', 'id', '-un')
    expect('package: a client reaches the server through the rendezvous service', r.stdout == 'codex-agent\n', r)
    r = through('--sandbox', 'read-only', '--', 'sh', '-c', '(echo > mine) 2>/dev/null || echo denied')
    expect('package: that server confines', r.stdout == 'denied\n', r)
    return through


def upgraded(through):
    """dpkg -i of the next version while a detached process runs."""
    script = 'n=0; while [ ! -e ~/finish ]; do n=$((n+1)); echo tick $n | tee /tmp/ticks; sleep 0.2; done; exit 7'
    r = remote('run', '--detach', '--name', 'ticks', '--', 'sh', '-c', script)
    expect('package: a detached process starts', r.returncode == 0, r)
    until(lambda: 'tick 2' in remote('logs', 'ticks').stdout)
    before = {unit: main_pid(unit) for unit in UNITS}
    running = [p for p in processes_of('codex-agent') if 'tick $n' in p]
    r = install('0.0.2')
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
    r = remote('exec', '--json', '--no-input', '--memory', '64M', '--require-limits', '--sandbox', 'danger-full-access', '--', 'true')
    expect('package: limits hold after the upgrade', r.returncode == 0 and '"by":"cgroup"' in r.stdout.replace(' ', ''), r)


def purged(before):
    r = remote('run', '--detach', '--name', 'stays', '--', 'sleep', '1000')
    expect('package: a detached process is there before the removal', r.returncode == 0, r)
    listed = [path for path in dpkg('-L', PACKAGE).stdout.splitlines() if not os.path.isdir(path)]
    r = dpkg('-r', PACKAGE)
    expect('package: dpkg -r', r.returncode == 0, r.stderr)
    expect('package: no service runs', [state(unit) for unit in UNITS] == ['inactive'] * len(UNITS), [state(unit) for unit in UNITS])
    left = processes_of('codex-agent') + processes_of('codex-rendezvous')
    expect('package: no process of the services is left', until(lambda: not processes_of('codex-agent') + processes_of('codex-rendezvous'), 10), left)
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
    installed()
    exposure()
    serves()
    through = registers()
    upgraded(through)
    purged(before)
