"""The cache agent as a process, on a real API server, with least rights: what it fetches, links, tells and collects."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from pathlib import Path

import pytest
from cache_agent_bed import DEADLINE, Bed
from cache_agent_stand import deliver, image, measured, probing, run_command, scanning
from ports import free_port
from registries import misbehaviour

from accelkit.gkm import names
from accelkit.kube.paths import NODES, build_collection_path

log = logging.getLogger(__name__)

pytest_plugins = ["cache_fixtures"]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


async def test_verified_cache_is_extracted_linked_and_reported(bed: Bed):
    made = await deliver(bed)
    assert bed.leads_to(made.digest)
    group = json.loads(next(bed.link().glob("*/__grp__*.json")).read_text())
    assert all(path.startswith("/root/.triton/cache/") for path in group["child_paths"].values())
    for digest in ("", made.digest):
        volume = Path(
            names.build_volume_path(f"{bed.namespace}/add", bed.namespace, digest, "/root/.triton/cache", bed.store)
        )
        await bed.until_true(volume.is_dir)
        assert volume.resolve() == bed.link().resolve()
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
    # Kubernetes deletes the report with the node.
    node = json.loads(await bed.api.get(f"{NODES}/{bed.node}"))["metadata"]
    path = f"{build_collection_path(names.API, 'gkmcachenodes', bed.namespace)}/{bed.node}"
    owner = {"apiVersion": "v1", "kind": "Node", "name": bed.node, "uid": node["uid"]}
    assert json.loads(await bed.api.get(path))["metadata"]["ownerReferences"] == [owner]
    assert bed.stop() == 0


async def test_cache_incompatible_with_cards_is_not_downloaded(bed: Bed):
    host = bed.registry.host
    made = await image(host, bed.folder, "team/add")
    layer = json.loads(made.manifest)["layers"][0]["digest"]
    await bed.create(host, kernels="hip:gfx942")
    bed.start()
    await bed.cache(f"{host}/team/add:v1", made.digest)
    found = await bed.until("Compatible", made.digest, status="False", reason="Incompatible")
    assert "BackendMismatch" in found["message"]
    assert (await bed.entry(made.digest))["incompatibleGPUs"] == [0]
    assert (await bed.condition("Ready", made.digest))["reason"] == "Incompatible"
    assert not bed.registry.received("GET", f"/v2/team/add/blobs/{layer}")
    assert not bed.folders()
    assert not bed.link().is_symlink()


async def test_digest_switch_waits_for_starting_pods_and_keeps_former_for_running(bed: Bed):
    host = bed.registry.host
    old, new = [await image(host, bed.folder, "team/add", kernel) for kernel in ("old", "new")]
    await bed.create(host)
    bed.start()
    await bed.cache(f"{host}/team/add:v1", old.digest)
    await bed.until("Ready", old.digest)
    await bed.pod("starts", phase="Pending")
    await bed.until_used(old.digest)
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


async def test_stored_digest_is_ready_without_registry(bed: Bed):
    made = await deliver(bed)
    bed.kill()
    # It is away for longer than this lasts.
    bed.registry.on("*", ".*", misbehaviour.failing(503))
    asked = len(bed.registry.requests)
    bed.start()
    await bed.cache(f"{bed.registry.host}/team/add:v1", made.digest, "again")
    await bed.until("Ready", made.digest, "again")
    await bed.cache(f"{bed.registry.host}/team/add:v1", made.digest, "third")
    with measured("ready, of a digest that is here") as seconds:
        await bed.until("Ready", made.digest, "third")
        # A guard against waiting for a timer; the machine may be busy.
        assert seconds() < 5
    assert len(bed.registry.requests) == asked


async def test_deleted_cache_leaves_no_link_report_or_folder(bed: Bed):
    made = await deliver(bed)
    await bed.pod("runs")
    await bed.until_used(made.digest)
    await bed.delete()
    await bed.until_true(lambda: not bed.link().is_symlink())
    async with asyncio.timeout(DEADLINE):
        while await bed.report():
            await asyncio.sleep(0.05)
    assert bed.folders(), "a pod has it still"
    await bed.delete_pod("runs")
    await bed.until_true(lambda: not bed.folders())


async def test_files_added_to_private_copy_are_reported_as_misses(bed: Bed):
    scans, pods = bed.folder / "scans", bed.folder / "pods"
    scans.mkdir()
    made = await deliver(bed, "--scan-folder", str(scans))
    pinned = names.name_pinned_claim(f"{bed.namespace}/add", made.digest)
    uid = (await bed.pod("hits", pinned, copied=True))["metadata"]["uid"]
    copy = pods / uid / "volumes/kubernetes.io~empty-dir" / names.name_private_copy("kernels")
    copy.mkdir(parents=True)
    run_command("cache", "private-copy", "--from", str(bed.link()), "--to", str(copy))
    with scanning(scans, pods):
        await bed.until_true((scans / "copies.json").exists)
    await bed.poke()
    await bed.until("Effective", made.digest, reason="Hits")
    key = copy / ("A" * 52)
    key.mkdir()
    (key / "add_kernel.cubin").write_bytes(b"made anew")
    (scans / "copies.json").unlink()
    with scanning(scans, pods):
        await bed.until_true((scans / "copies.json").exists)
    await bed.poke()
    found = await bed.until("Effective", made.digest, status="False", reason="Misses")
    assert f"1 of 1 pods created 1 files: {bed.namespace}/hits (1); Triton kernels" in found["message"]
    assert (await bed.entry(made.digest))["pods"] == [
        {"podNamespace": bed.namespace, "podName": "hits", "missedFiles": 1}
    ]


async def test_agent_serves_many_caches_and_answers_probes(bed: Bed):
    host, count = bed.registry.host, int(os.environ.get("ACCELKIT_CACHES", "20"))
    made = [await image(host, bed.folder, f"team/cache{number}", f"kernel{number}") for number in range(10)]
    await bed.create(host)
    port = free_port()
    bed.start("--metrics-port", str(port))
    with probing(port) as took, measured(f"{count} caches"):
        await asyncio.gather(
            *(
                bed.cache(f"{host}/team/cache{number % 10}:v1", made[number % 10].digest, f"cache-{number}")
                for number in range(count)
            )
        )
        for number in range(count):
            await bed.until("Ready", made[number % 10].digest, f"cache-{number}")
    assert len(bed.folders()) == 10
    # A kubelet waits for a second, and ends what it has got no answer of three times.
    log.info("%d probes, the slowest took %.3f s", len(took), max(took))
    assert max(took) < DEADLINE
    status = Path(f"/proc/{bed.pid}/status").read_text()
    log.info(next(line for line in status.splitlines() if line.startswith("VmHWM")))
