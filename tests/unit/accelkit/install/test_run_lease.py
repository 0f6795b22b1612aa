import asyncio
import subprocess
import sys

import pytest
from support.waiting import until

from accelkit.errors import ApiError
from accelkit.install import run_lease
from accelkit.install.run_lease import RunLease, hold_run_lease, read_run_lease
from accelkit.kube import lease
from accelkit.kube.lease import RUN_LEASE
from accelkit.kube.paths import build_leases_path, build_object_path

LEASE = build_object_path(build_leases_path(RUN_LEASE.namespace), RUN_LEASE.name)


@pytest.fixture(autouse=True)
def _quickly(monkeypatch):
    monkeypatch.setattr(run_lease, "_RENEW_SECONDS", 0.01)
    monkeypatch.setattr(run_lease, "_POLL_SECONDS", 0.01)


@pytest.fixture
def process():
    """A process that lives until the test ends it."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as running:
        yield running
        running.kill()


@pytest.fixture
async def holding(api, process):
    """A run `a` that holds the lease: its task, and what it is told."""
    told = []
    task = asyncio.create_task(hold_run_lease(api, "a", process.pid, told.append))
    yield task, told
    task.cancel()


async def test_lease_is_held_while_process_runs_and_deleted_afterwards(api, process, holding):
    task, told = holding
    await until(lambda: told)
    assert (told[0].held, told[0].holder) == (True, "a")
    assert api.objects[LEASE]["spec"]["leaseDurationSeconds"] == 60
    renewed = api.objects[LEASE]["spec"]["renewTime"]
    async with asyncio.timeout(30):
        await until(lambda: api.objects[LEASE]["spec"]["renewTime"] > renewed)
        process.kill()
        await task
    assert LEASE not in api.objects


async def test_concurrent_run_is_given_holder_and_start_time(api, process, holding):
    _, told = holding
    await until(lambda: told)
    other, again = [], []
    await hold_run_lease(api, "b", process.pid, other.append)
    assert other == [RunLease(False, "a", told[0].since)]
    assert api.objects[LEASE]["spec"]["holderIdentity"] == "a"
    assert await read_run_lease(api, "b") == other[0]
    # The same run asks twice, and holds it once.
    await hold_run_lease(api, "a", process.pid, again.append)
    assert again[0].held
    assert LEASE in api.objects


async def test_expired_lease_of_dead_run_is_taken_over(api, holding, monkeypatch):
    monkeypatch.setattr(lease, "RUN_LEASE_SECONDS", 1)
    dead = {"holderIdentity": "dead", "leaseDurationSeconds": 1, "renewTime": "2020-01-01T00:00:00.000000Z"}
    api.store(build_leases_path(RUN_LEASE.namespace), {"metadata": {"name": RUN_LEASE.name}, "spec": dead})
    _, told = holding
    await until(lambda: told)
    assert told[0].holder == "a"


async def test_missing_lease_means_no_run_holds_the_cluster(api):
    assert await read_run_lease(api, "a") == RunLease()


async def test_forbidden_lease_access_is_reported(api, process):
    told = []
    api.fail(ApiError("leases is forbidden", status=403), times=None)
    await hold_run_lease(api, "a", process.pid, told.append)
    assert told == [RunLease(error="leases is forbidden")]
