"""Documents that threads read are read by all of them, although msgspec crashes where two prepare a type at once.

Each in a process of its own, since the crash is the process's.
"""

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

CARDS = """
import importlib, pathlib
from accelkit.node.discovery.files import cards_file
from accelkit.vendors.profiles import FileDiscovery, load_profiles

folder = pathlib.Path(sys.argv[1])
card = {"id": "a", "model": "m", "memory_bytes": 1, "index": 0}
(folder / "cards.json").write_bytes(msgspec.json.encode({"cards": [card]}))
profile = next(iter(load_profiles().values()))
for _ in range(40):
    importlib.reload(cards_file)
    run_in_threads(lambda: cards_file.find_listed(folder, profile, FileDiscovery("cards.json")))
assert cards_file.find_listed(folder, profile, FileDiscovery("cards.json"))
"""
MEASURES = """
import importlib
from accelkit.vendors import measures

for _ in range(40):
    importlib.reload(measures)
    run_in_threads(lambda: measures.find_measure_files(None))
assert measures.find_measure_files(None).power_watts
"""


@pytest.mark.parametrize(
    "script", [RECORD, SCAN, CARDS, MEASURES], ids=["record of a cache", "scan", "cards", "measures"]
)
def test_first_decoding_in_several_threads_does_not_crash(script, tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(IN_THREADS + script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
