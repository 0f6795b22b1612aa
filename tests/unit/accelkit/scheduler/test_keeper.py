import asyncio
import json

import pytest
from click.testing import CliRunner
from fake_api.server import FakeApi

from accelkit.cli import main
from accelkit.errors import ConfigurationError, ServiceError
from accelkit.kube.lease import RUN_LEASE
from accelkit.kube.paths import build_leases_path, build_object_path
from accelkit.scheduler import keeper as keeper_module
from accelkit.scheduler.arguments import ExtenderSpec, Spec
from accelkit.scheduler.keeper import RETRY_SECONDS, Keeper
from accelkit.scheduler.keeper_command import read_spec

LEASE = build_object_path(build_leases_path(RUN_LEASE.namespace), RUN_LEASE.name)
GIVEN = Spec(extender=ExtenderSpec(url_prefix="https://10.0.0.1"))


class Engine:
    """Stands for perform(): a kube-scheduler whose manifest is a word."""

    def __init__(self, api):
        self.api = api
        self.manifest = "kubeadm's"
        self.applied = []
        self.refuses = False

    def __call__(self, action, spec, _host, _connection):
        changed = self.manifest != "ours"
        if action == "apply":
            # The Lease is held while anything is changed.
            assert self.api.objects[LEASE]["spec"]["holderIdentity"] == "accelkit-scheduler-keeper on master-1"
            self.applied.append((spec.node, spec.kubernetes_version))
            if self.refuses:
                raise ServiceError("kube-scheduler does not come back")
            self.manifest = "ours"
        return {"changed": changed, "diff": [{"before": self.manifest}] if changed else []}


class Bed:
    def __init__(self, engine, api):
        self.engine, self.api, self.now = engine, api, 0.0
        self.broken = False
        self.keeper = Keeper(api, None, None, "master-1", self.read_spec, clock=lambda: self.now)

    def read_spec(self):
        if self.broken:
            raise ConfigurationError("the specification is invalid")
        return GIVEN

    async def look(self, times=1):
        for _ in range(times):
            await self.keeper.check_once()

    @property
    def told(self):
        events = [each for path, each in self.api.objects.items() if "/events/" in path]
        return [(each["reason"], each["message"]) for each in events]


@pytest.fixture
def bed(monkeypatch):
    api = FakeApi()
    api.documents["/version"] = {"gitVersion": "v1.35.0"}
    engine = Engine(api)
    monkeypatch.setattr(keeper_module, "perform", engine)
    return Bed(engine, api)


async def test_rewritten_manifest_is_switched_after_second_observation(bed):
    await bed.look()
    assert bed.engine.applied == []
    await bed.look(2)
    assert bed.engine.applied == [("master-1", "v1.35.0")]
    assert bed.told == [
        ("SchedulerSwitched", "kube-scheduler did not call the extender, and was configured again to call it")
    ]
    assert LEASE not in bed.api.objects
    bed.engine.manifest = "kubeadm's of the next version"
    await bed.look(2)
    assert len(bed.engine.applied) == 2


async def test_manifest_that_is_still_changing_is_not_switched(bed):
    for text in ("a", "b", "c"):
        bed.engine.manifest = text
        await bed.look()
    assert bed.engine.applied == []


async def test_keeper_waits_while_another_run_holds_lease(bed):
    held = {"holderIdentity": "alice@laptop", "leaseDurationSeconds": 60, "renewTime": "2026-01-01T00:00:00.000000Z"}
    bed.api.store(build_leases_path(RUN_LEASE.namespace), {"metadata": {"name": RUN_LEASE.name}, "spec": held})
    await bed.look(5)
    assert bed.engine.applied == []
    assert bed.api.objects[LEASE]["spec"] == held
    del bed.api.objects[LEASE]
    await bed.look()
    assert len(bed.engine.applied) == 1


async def test_failed_switch_is_retried_only_after_delay(bed):
    bed.engine.refuses = True
    await bed.look(5)
    assert len(bed.engine.applied) == 1
    assert bed.told == [("SchedulerNotSwitched", "kube-scheduler does not come back")]
    bed.now += RETRY_SECONDS
    await bed.look()
    assert len(bed.engine.applied) == 2
    bed.engine.refuses = False
    bed.engine.manifest = "another"
    await bed.look(2)
    assert bed.engine.manifest == "ours"
    assert LEASE not in bed.api.objects


async def test_recurring_problem_is_reported_once_per_occurrence(bed):
    bed.engine.manifest = "ours"
    for broken in (True, False, True):
        bed.broken = broken
        await bed.look(2)
    assert bed.told == [("SchedulerNotSwitched", "the specification is invalid")] * 2


async def test_keeper_exits_when_stopped(bed):
    stop = asyncio.Event()
    task = asyncio.create_task(bed.keeper.keep(stop))
    await asyncio.sleep(0)
    stop.set()
    await asyncio.wait_for(task, 60)


@pytest.fixture
def spec_file(tmp_path):
    path = tmp_path / "spec.json"
    path.write_text(json.dumps({"extender": {"url_prefix": "https://10.0.0.1"}}))
    return path


def test_specification_and_credentials_are_read_from_files(spec_file, tmp_path):
    assert read_spec(spec_file, None).credentials is None
    for name in ("ca.crt", "tls.crt", "tls.key"):
        (tmp_path / name).write_text(name)
    found = read_spec(spec_file, tmp_path).credentials
    assert (found.ca, found.certificate, found.key) == ("ca.crt", "tls.crt", "tls.key")


@pytest.mark.parametrize("content", [None, "{", '{"unknown": 1}'])
def test_unreadable_specification_is_a_configuration_error(tmp_path, content):
    path = tmp_path / "spec.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigurationError):
        read_spec(path, None)


def test_keeper_requires_node_name(spec_file):
    done = CliRunner().invoke(main, ["scheduler-keeper", "--spec", str(spec_file)], env={"NODE_NAME": ""})
    assert done.exit_code == 2
    assert "--node" in done.output
