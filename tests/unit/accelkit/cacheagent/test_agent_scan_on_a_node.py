"""`accelkit cache-scan` as it is installed, on folders as a kubelet lays them out, with the rights of its container."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from agent_worlds import A, desired, folder, link, read_pod, stored, world

from accelkit.cacheagent.planning.observed import read_mounting_pod
from accelkit.cacheagent.planning.plan import make_plan
from accelkit.cacheagent.planning.world import World
from accelkit.cacheagent.reporting.effect import assign_missed
from accelkit.cacheagent.reporting.report import build_reports
from accelkit.cacheagent.scanning.document import read_missed
from accelkit.cachecontroller.webhook.copying import build_container, build_volume, name_copy
from accelkit.gkm.conditions import Condition, ConditionType, find_condition

UID = "0a1b2c3d-0000-4000-8000-000000000001"
COPY = name_copy("kernels")
KERNELS = "A" * 52
POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "team", "uid": UID},
    "status": {"phase": "Running"},
    "spec": {
        "nodeName": "n",
        "containers": [],
        "volumes": [
            {"name": "kernels", "persistentVolumeClaim": {"claimName": f"add-{'a' * 12}", "readOnly": True}},
            build_volume(COPY, 0),
        ],
    },
}
ACCELKIT = str(Path(sys.executable).with_name("accelkit"))
# Of the workload, whose files belong to nobody that the scan is.
USER = 65532
ROOT = os.geteuid() == 0


@pytest.fixture
def kubelet(tmp_path) -> Path:
    """The kubelet's folder with one pod, whose private copy its workload has closed for others."""
    pods, scan = tmp_path / "pods", tmp_path / "scan"
    volume = pods / UID / "volumes" / "kubernetes.io~empty-dir" / COPY
    volume.mkdir(parents=True)
    for each in (pods, *list(volume.parents)[:3]):
        each.chmod(0o750)
    volume.chmod(0o777)
    scan.mkdir()
    scan.chmod(0o777)
    return pods


def fill(pods: Path, cache: Path) -> Path:
    """Fill the copy as the webhook's init container does, and let its workload compile a kernel of its own."""
    (cache / KERNELS).mkdir(parents=True)
    (cache / KERNELS / "k.cubin").write_bytes(b"kernel")
    copy = pods / UID / "volumes" / "kubernetes.io~empty-dir" / COPY
    places = {"/accelkit/from": str(cache), "/accelkit/to": str(copy)}
    container = build_container(COPY, "kernels", "accelkit", POD)
    subprocess.run([ACCELKIT, *(places.get(each, each) for each in container["args"])], check=True, timeout=60)
    own = copy / ("B" * 52)
    own.mkdir()
    (own / "k.cubin").write_bytes(b"compiled by the workload")
    own.chmod(0o700)
    if ROOT:
        for path in (*copy.rglob("*"), copy):
            os.lchown(path, USER, USER)
    return own


@contextmanager
def scanning(pods: Path, *capabilities: str) -> Iterator[IO[str]]:
    """Run the scan as root with these capabilities alone, as the role does; without root as it is."""
    rights = ["setpriv", "--regid", str(USER), "--clear-groups", "--no-new-privs"]
    rights += ["--bounding-set", ",".join(["-all", *(f"+{each}" for each in capabilities)])]
    command = [ACCELKIT, "cache-scan", "--folder", str(pods.parent / "scan"), "--pods-folder", str(pods)]
    process = subprocess.Popen([*(rights if ROOT else ()), *command], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0


def report(pods: Path) -> Condition:
    """What the agent says of the cache."""
    pod = read_mounting_pod(read_pod(POD))
    assert pod is not None
    known: World = world(desired(), stored={folder(A): stored()}, links={link(): folder(A)}, pods=(pod,))
    plan = make_plan(known)
    missed = assign_missed(read_missed(pods.parent / "scan"), known.desired_caches, plan.usage)
    reports = build_reports(known, plan, missed, node_name="n", root="/store")
    found = find_condition(reports["team"].caches["add"][A].conditions, ConditionType.EFFECTIVE)
    assert found is not None
    return found


def test_files_created_by_workload_are_counted_and_reported(kubelet, tmp_path):
    assert "pods with private copies that were not scanned: 1" in report(kubelet).message
    fill(kubelet, tmp_path / "cache")
    with scanning(kubelet, "dac_read_search") as log:
        assert "private copies scanned counted=1 without_marker=0 left_out=0" in log.readline()
    found = report(kubelet)
    assert (found.status, found.reason) == ("False", "Misses")
    assert "team/p (1)" in found.message


def test_private_copy_without_marker_is_reported(kubelet):
    """So it shows where those who fill copies and those who look at them know different markers."""
    with scanning(kubelet, "dac_read_search") as log:
        assert "private copies scanned counted=0 without_marker=1 left_out=0" in log.readline()
    assert report(kubelet).reason == "NotMeasured"


def test_unreadable_folders_are_reported_and_not_counted_as_empty(kubelet, tmp_path):
    own = fill(kubelet, tmp_path / "cache")
    own.chmod(0o000)
    try:
        with scanning(kubelet) as log:
            line = log.readline()
    finally:
        own.chmod(0o700)
    assert "cannot read 1 folders of pods: Permission denied" in line
    assert "CAP_DAC_READ_SEARCH" in line
    # None seen does not mean none made.
    assert report(kubelet).reason == "NotMeasured"
