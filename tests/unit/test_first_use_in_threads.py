"""Documents that threads read are read by all of them, although msgspec crashes where two prepare a type at once.

Each in a process of its own, since the crash is the process's.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

IN_THREADS = """
import sys, threading
import msgspec

sys.setswitchinterval(1e-6)

def run_in_threads(work):
    barrier = threading.Barrier(8)
    threads = [threading.Thread(target=lambda: (barrier.wait(), work())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""
RECORD = """
import importlib, pathlib
from accelkit.kernelcache.extraction import record

folder = pathlib.Path(sys.argv[1])
texts = ("image", "format", "mount_path", "policy_digest", "extracted_at")
numbers = {"files": 1, "size_bytes": 1, "version": 1}
written = {**dict.fromkeys(texts, ""), **numbers, "signatures": [], "labels": {"format": ""}}
(folder / record.RECORD).write_bytes(msgspec.json.encode(written))
for _ in range(40):
    # Its type is new again, and not used yet.
    importlib.reload(record)
    run_in_threads(lambda: record.read_record(folder))
assert record.read_record(folder) is not None
"""
SIGNED_DOCUMENT = """
from accelkit.kernelcache.signatures.documents import read_json

for number in range(100):
    part = msgspec.defstruct(f"Part{number}", [(f"field_{each}", dict[str, list[int]]) for each in range(30)])
    whole = msgspec.defstruct(f"Whole{number}", [("parts", list[part])])
    run_in_threads(lambda: read_json(b'{"parts": []}', whole, "the document"))
"""


SCAN = """
import importlib, pathlib
from accelkit.node.processes import passed_on, scan

folder = pathlib.Path(sys.argv[1])
(folder / "processes.json").write_bytes(msgspec.json.encode(passed_on.Scan(0, scan.Processes((), 0), {})))
for _ in range(40):
    for module in (scan, passed_on):
        importlib.reload(module)
    run_in_threads(passed_on.PassedScan(folder, clock=lambda: 0).read)
assert passed_on.PassedScan(folder, clock=lambda: 0).read() is not None
"""


@pytest.mark.parametrize(
    "script", [RECORD, SIGNED_DOCUMENT, SCAN], ids=["record of a cache", "signed document", "scan"]
)
def test_documents_are_read_for_the_first_time_in_several_threads(script, tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(IN_THREADS + script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
