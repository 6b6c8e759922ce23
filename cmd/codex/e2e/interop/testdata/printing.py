"""Has the real client run a command that prints for a while.

  printing.py REALCLIENT CLIENT URL COMMAND

REALCLIENT is the path of the program that drives the client. Prints what the
client told the model about the command, as JSON.
"""
import importlib.util
import json
import sys

spec = importlib.util.spec_from_file_location('realclient', sys.argv[1])
realclient = importlib.util.module_from_spec(spec)
spec.loader.exec_module(realclient)

client, url, command = sys.argv[2:]
outputs, _, seen = realclient.turn(client, url, [('exec_command', {'cmd': command, 'yield_time_ms': 30000})])
errors = [m for m in seen if 'error' in json.dumps(m).lower()]
print(json.dumps({'outputs': outputs, 'errors': errors[-5:]}))
