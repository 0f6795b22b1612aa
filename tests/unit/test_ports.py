import itertools
import os
import subprocess
import sys
from pathlib import Path

import ports

CHOOSE = "import itertools, ports; ports._offsets = itertools.count(7); print(ports.free_port(), flush=True); input()"


def test_free_port_is_reserved_for_one_process(monkeypatch):
    monkeypatch.setattr(ports, "_offsets", itertools.count(7))
    environ = {**os.environ, "PYTHONPATH": str(Path(ports.__file__).parent)}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", CHOOSE], env=environ, stdin=pipe, stdout=pipe, text=True) as other:
        theirs = int(other.stdout.readline())
        assert ports.free_port() != theirs
        other.communicate("\n", timeout=60)
