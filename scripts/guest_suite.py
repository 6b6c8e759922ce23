"""What the suites in a guest of scripts/services share: commands, results and their log."""
import os
import subprocess
import sys
import time

JOB = sys.argv[1]
OUT = os.path.join(JOB, 'out')
TOP = '/run/services'
PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
os.environ['PATH'] = PATH
USER = 'agent'
counts = {True: 0, False: 0}
log = open(os.path.join(OUT, 'log'), 'a', buffering=1)


def run(*argv, env=None, user=None, timeout=300, check=False, text=None):
    """The result of a command; it is in the log, too."""
    if user:
        argv = ('setpriv', '--reuid', user, '--regid', user, '--clear-groups', '--', *argv)
    began = time.time()
    r = subprocess.run(argv, stdin=None if text is not None else subprocess.DEVNULL, input=text, capture_output=True, text=True, timeout=timeout,
                       env=dict({'PATH': PATH, 'HOME': '/root' if not user else TOP + '/home', 'LANG': 'C.UTF-8'}, **(env or {})))
    log.write('%s\n  -> %d (%.1f s) %s %s\n' % (' '.join(argv), r.returncode, time.time() - began, r.stdout[-2000:], r.stderr[-2000:]))
    if check and r.returncode:
        raise RuntimeError('%s: %d: %s' % (' '.join(argv), r.returncode, r.stderr[-500:]))
    return r


def expect(what, holds, got=''):
    counts[bool(holds)] += 1
    line = ('ok   ' if holds else 'FAIL ') + what
    if not holds:
        line += '\n     got: %s' % str(got)[:600].replace('\n', ' ')
    print('%s (%.0f s)' % (line, time.monotonic()), flush=True)


def until(condition, seconds=180):
    """Whether a condition comes to hold. A guest may be as slow as what else its machine runs lets it."""
    end = time.time() + seconds
    while not condition():
        if time.time() > end:
            return False
        time.sleep(0.05)
    return True


def wait_socket(path):
    if not until(lambda: os.path.exists(path)):
        raise RuntimeError('no server listens on ' + path)
