"""The cache agent as a process, on a real API server, with least rights: what it fetches, links, reports and collects."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cache_agent_bed import CRDS, DEADLINE, RULES, Bed, image, measured
from cluster_objects import kubeconfig_of, load_yaml
from registries import misbehaviour
from registries.hostile import HostileRegistry

from accelkit.errors import ApiError
from accelkit.gkm import names
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_LAYERS = "/v2/.*/blobs/.*"


@pytest.fixture(scope="module")
def agent_kubeconfig(control_plane) -> Path:
    """The custom resources are there, and a ServiceAccount may do what the agent has to, and nothing else."""

    async def prepare() -> Path:
        async with ApiClient(load_connection(control_plane.kubeconfig)) as api:
            for path in sorted(CRDS.glob("*.yaml")):
                try:
                    await api.post(_DEFINITIONS, load_yaml(path))
                except ApiError as exc:
                    if not exc.already_exists:
                        raise
            deadline = time.monotonic() + DEADLINE
            for path in (names.CACHES, names.CACHE_NODES, names.CLUSTER_CACHES, names.SIGNER_POLICIES):
                while True:
                    try:
                        await api.get(path)
                        break
                    except ApiError as exc:
                        assert time.monotonic() < deadline, exc
                        await asyncio.sleep(0.1)
        return await kubeconfig_of(control_plane, "cache-agent", {"rules": RULES})

    return asyncio.run(prepare())


@pytest.fixture
async def bed(control_plane, agent_kubeconfig: Path, tmp_path: Path) -> AsyncIterator[Bed]:
    async with ApiClient(load_connection(control_plane.kubeconfig), timeout_seconds=30) as api:
        bed = Bed(api, agent_kubeconfig, tmp_path)
        try:
            yield bed
        finally:
            await bed.close()


async def test_a_verified_cache_comes_to_lie_linked_and_told_of(
    bed: Bed, hostile_registry: HostileRegistry, tmp_path: Path
):
    host = hostile_registry.host
    made = await image(host, tmp_path, "team/add")
    await bed.create(host)
    bed.start()
    await bed.cache(f"{host}/team/add:v1", made.digest)
    await bed.until("Ready", made.digest)
    assert bed.leads_to(made.digest)
    group = json.loads(next(bed.link().glob("*/__grp__*.json")).read_text())
    assert all(path.startswith("/root/.triton/cache/") for path in group["child_paths"].values())
    entry = await bed.entry(made.digest)
    assert entry["compatibleGPUs"] == [0]
    assert entry["path"] == names.build_cache_path(made.digest, "/root/.triton/cache", bed.store)
    assert {each["type"] for each in entry["conditions"]} == {
        "Compatible",
        "Extracted",
        "Ready",
        "Outdated",
        "Effective",
    }
    assert bed.stop() == 0


async def test_for_cards_that_cannot_load_it_nothing_is_fetched(
    bed: Bed, hostile_registry: HostileRegistry, tmp_path: Path
):
    host = hostile_registry.host
    made = await image(host, tmp_path, "team/add")
    layer = json.loads(made.manifest)["layers"][0]["digest"]
    await bed.create(host, kernels="hip:gfx942")
    bed.start()
    await bed.cache(f"{host}/team/add:v1", made.digest)
    found = await bed.until("Compatible", made.digest, status="False", reason="Incompatible")
    assert "BackendMismatch" in found["message"]
    assert (await bed.entry(made.digest))["incompatibleGPUs"] == [0]
    assert (await bed.condition("Ready", made.digest))["reason"] == "Incompatible"
    assert not hostile_registry.received("GET", f"/v2/team/add/blobs/{layer}")
    assert not bed.folders()
    assert not bed.link().is_symlink()


async def test_killed_amid_an_extraction_it_shows_nothing_and_goes_on_when_it_is_back(
    bed: Bed, hostile_registry: HostileRegistry, tmp_path: Path
):
    host = hostile_registry.host
    made = await image(host, tmp_path, "team/add")
    layer = json.loads(made.manifest)["layers"][0]["digest"]
    stalls = [True]
    stalled = misbehaviour.stalled()
    hostile_registry.on("GET", f"/v2/team/add/blobs/{layer}", lambda request: stalled(request) if stalls[0] else None)
    await bed.create(host)
    bed.start()
    await bed.cache(f"{host}/team/add:v1", made.digest)
    await bed.until_true(lambda: list(bed.store.glob(".sha256-*.partial")))
    bed.kill()
    assert list(bed.store.glob(".sha256-*.partial"))
    assert not bed.folders()
    assert not bed.link().is_symlink()
    await bed.delete()
    bed.start()
    # Nobody asks for it any more, so that no extraction clears it.
    await bed.until_true(lambda: not list(bed.store.glob(".sha256-*.partial")))
    stalls[0] = False
    await bed.cache(f"{host}/team/add:v1", made.digest)
    await bed.until("Ready", made.digest)


async def test_a_registry_that_lies_about_a_digest_is_told_of_and_asked_again(
    bed: Bed, hostile_registry: HostileRegistry, tmp_path: Path
):
    host = hostile_registry.host
    made = await image(host, tmp_path, "team/add")
    layer = json.loads(made.manifest)["layers"][0]["digest"]
    lies = [True]
    lie = misbehaviour.changed(b"something else")
    hostile_registry.on("GET", f"/v2/team/add/blobs/{layer}", lambda request: lie(request) if lies[0] else None)
    await bed.create(host)
    bed.start()
    await bed.cache(f"{host}/team/add:v1", made.digest)
    await bed.until("Extracted", made.digest, status="False", reason="ExtractionFailed")
    assert not bed.folders()
    assert not bed.link().is_symlink()
    lies[0] = False
    await bed.until("Ready", made.digest)


async def test_a_full_budget_is_told_in_figures_and_room_is_made_by_deleting(
    bed: Bed, hostile_registry: HostileRegistry, tmp_path: Path
):
    host = hostile_registry.host
    one, two = [await image(host, tmp_path, "team/add", kernel) for kernel in ("one", "two")]
    await bed.create(host)
    # Each takes about a kilobyte.
    bed.start("--max-gib", "0.0000015")
    await bed.cache(f"{host}/team/add:v1", one.digest, "one")
    await bed.until("Ready", one.digest, "one")
    await bed.cache(f"{host}/team/add:v1", two.digest, "two")
    found = await bed.until("Extracted", two.digest, "two", status="False", reason="OverBudget")
    assert "1610 bytes" in found["message"]
    await bed.delete("one")
    await bed.until("Ready", two.digest, "two")
    await bed.until_true(lambda: len(bed.folders()) == 1)
    assert not bed.link("one").is_symlink()


async def test_a_new_digest_waits_for_pods_that_start_and_the_former_one_for_pods_that_run(
    bed: Bed, hostile_registry: HostileRegistry, tmp_path: Path
):
    host = hostile_registry.host
    old, new = [await image(host, tmp_path, "team/add", kernel) for kernel in ("old", "new")]
    await bed.create(host)
    bed.start()
    await bed.cache(f"{host}/team/add:v1", old.digest)
    await bed.until("Ready", old.digest)
    await bed.pod("starts", phase="Pending")
    await bed.until_true(lambda: ".agent.json" in {path.name for path in bed.store.iterdir()})

    async def told() -> bool:
        return bool((await bed.entry(old.digest)).get("pods"))

    deadline = time.monotonic() + DEADLINE
    while not await told():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    await bed.resolve(new.digest)
    await bed.until("Extracted", new.digest)
    found = await bed.until("Ready", new.digest, status="False", reason="Pending")
    assert f"{bed.namespace}/starts" in found["message"]
    assert bed.leads_to(old.digest)
    await bed.phase("starts", "Running")
    await bed.until("Ready", new.digest)
    assert bed.leads_to(new.digest)
    outdated = await bed.condition("Outdated", old.digest)
    assert (outdated["status"], outdated["reason"]) == ("True", "Outdated")
    assert len(bed.folders()) == 2
    # What it was given is remembered.
    bed.kill()
    bed.start()
    await bed.until("Outdated", old.digest)
    await bed.delete_pod("starts")
    await bed.until_true(lambda: len(bed.folders()) == 1)
    assert bed.leads_to(new.digest)


async def test_what_is_withdrawn_is_handed_to_nobody_and_stays_for_pods_that_run(
    bed: Bed, hostile_registry: HostileRegistry, tmp_path: Path
):
    host = hostile_registry.host
    made = await image(host, tmp_path, "team/add")
    await bed.create(host)
    bed.start()
    await bed.cache(f"{host}/team/add:v1", made.digest)
    await bed.until("Ready", made.digest)
    await bed.pod("runs")
    await bed.distrust()
    # The controller's verdict may be late: the node does not wait for it.
    await bed.until("Ready", made.digest, status="False", reason="NotCovered")
    assert bed.link().is_symlink()
    assert not bed.link().exists(), "a pod must wait, and not start with an empty folder"
    await bed.resolve("", verified="False")
    await bed.until_true(lambda: len(bed.folders()) == 1)
    await bed.trust(host)
    asked = len(hostile_registry.requests)
    await bed.resolve(made.digest)
    await bed.until("Ready", made.digest)
    assert bed.leads_to(made.digest)
    assert len(hostile_registry.requests) == asked, "what it satisfied before, it satisfies again"


async def test_a_node_that_has_the_digest_is_ready_in_a_second_without_its_registry(
    bed: Bed, hostile_registry: HostileRegistry, tmp_path: Path
):
    host = hostile_registry.host
    made = await image(host, tmp_path, "team/add")
    await bed.create(host)
    bed.start()
    await bed.cache(f"{host}/team/add:v1", made.digest)
    await bed.until("Ready", made.digest)
    bed.kill()
    hostile_registry.on("*", ".*", misbehaviour.failing(503))
    asked = len(hostile_registry.requests)
    bed.start()
    await bed.cache(f"{host}/team/add:v1", made.digest, "again")
    await bed.until("Ready", made.digest, "again")
    await bed.cache(f"{host}/team/add:v1", made.digest, "third")
    with measured("ready, of a digest that is here") as seconds:
        await bed.until("Ready", made.digest, "third")
        # A guard against waiting for a timer; the machine may be busy.
        assert seconds() < 5
    assert len(hostile_registry.requests) == asked


async def test_a_deleted_cache_leaves_nothing(bed: Bed, hostile_registry: HostileRegistry, tmp_path: Path):
    host = hostile_registry.host
    made = await image(host, tmp_path, "team/add")
    await bed.create(host)
    bed.start()
    await bed.cache(f"{host}/team/add:v1", made.digest)
    await bed.until("Ready", made.digest)
    await bed.delete()
    await bed.until_true(lambda: not bed.folders() and not bed.link().is_symlink())
    deadline = time.monotonic() + DEADLINE
    while await bed.report():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def test_two_hundred_caches_at_once(bed: Bed, hostile_registry: HostileRegistry, tmp_path: Path):
    host = hostile_registry.host
    made = [await image(host, tmp_path, f"team/cache{number}", f"kernel{number}") for number in range(20)]
    await bed.create(host)
    bed.start()
    with measured("200 caches"):
        await asyncio.gather(
            *(
                bed.cache(f"{host}/team/cache{number % 20}:v1", made[number % 20].digest, f"cache-{number}")
                for number in range(200)
            )
        )
        for number in range(200):
            await bed.until("Ready", made[number % 20].digest, f"cache-{number}")
    assert len(bed.folders()) == 20
    status = Path(f"/proc/{bed.pid}/status").read_text()
    print(next(line for line in status.splitlines() if line.startswith("VmHWM")))
