"""What goes wrong around a cache agent: it is killed, registries lie or are away, disks are full, policies change."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from cache_agent_bed import DEADLINE, GIB, Bed
from cache_agent_stand import deliver, image
from registries import misbehaviour

from accelkit.cacheagent.reporting.report_writer import ReportWriter
from accelkit.cacheagent.reporting.status_patch import build_status_patch
from accelkit.errors import ApiError
from accelkit.gkm import names
from accelkit.gkm.conditions import ConditionType, Reason, state
from accelkit.gkm.objects import CachePod, NodeCacheStatus, NodeStatus
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.paths import build_collection_path

pytest_plugins = ["cache_fixtures"]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


async def test_extraction_resumes_after_agent_is_killed(bed: Bed):
    host = bed.registry.host
    made = await image(host, bed.folder, "team/add")
    layer = json.loads(made.manifest)["layers"][0]["digest"]
    stalls = [True]
    stalled = misbehaviour.stalled()
    bed.registry.on("GET", f"/v2/team/add/blobs/{layer}", lambda request: stalled(request) if stalls[0] else None)
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


async def test_wrong_blob_digest_is_reported_and_retried(bed: Bed):
    host = bed.registry.host
    made = await image(host, bed.folder, "team/add")
    layer = json.loads(made.manifest)["layers"][0]["digest"]
    lies = [True]
    lie = misbehaviour.changed(b"something else")
    bed.registry.on("GET", f"/v2/team/add/blobs/{layer}", lambda request: lie(request) if lies[0] else None)
    await bed.create(host)
    bed.start()
    await bed.cache(f"{host}/team/add:v1", made.digest)
    found = await bed.until("Extracted", made.digest, status="False", reason="ExtractionFailed")
    assert "(failure 1, retry scheduled)" in found["message"]
    assert not bed.folders()
    assert not bed.link().is_symlink()
    lies[0] = False
    await bed.until("Ready", made.digest)


# Who sends so much is told that it takes its time.
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@pytest.mark.parametrize(("caches", "pods"), [(60, 240), (900, 1)])
async def test_report_of_any_size_is_accepted_by_api_server(bed: Bed, kubeconfig: Path, caches: int, pods: int):
    """The API server stores 1.5 MiB of one object, with the names of the fields that are ours."""
    await bed.create("registry.test")
    mounting = [CachePod(bed.namespace, f"pod-{number:03}-{'n' * 40}") for number in range(pods)]
    kinds = (ConditionType.COMPATIBLE, ConditionType.EXTRACTED, ConditionType.READY, ConditionType.OUTDATED)
    conditions = [state(kind, Reason.READY, "m" * 1000, holds=True) for kind in (*kinds, ConditionType.EFFECTIVE)]
    entry = NodeCacheStatus(path="/" * 200, volume_size=1, pods=mounting, conditions=conditions)
    whole = NodeStatus(node_name=bed.node, caches={f"c{n:04}": {f"sha256:{n:064x}": entry} for n in range(caches)})
    async with ApiClient(load_connection(kubeconfig)) as api:
        writer = ReportWriter(api, bed.node, {})
        writing = asyncio.create_task(writer.run())
        try:
            writer.offer({bed.namespace: whole}, "")
            async with asyncio.timeout(DEADLINE):
                while not (stored := await bed.report()).get("caches"):
                    await asyncio.sleep(0.05)
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        ready = [each["conditions"][2] for by_digest in stored["caches"].values() for each in by_digest.values()]
        assert len(ready) >= min(caches, 400)
        assert {each["type"] for each in ready} == {"Ready"}
        if caches == 60:
            listed = {len(each["pods"]) for by_digest in stored["caches"].values() for each in by_digest.values()}
            told = {each["message"].rpartition("; ")[2] for each in ready}
            assert told == {f"pods that are not listed: {pods - max(listed)}"}
        path = f"{build_collection_path(names.API, 'gkmcachenodes', bed.namespace)}/{bed.node}"
        # With the names of our fields, as it is stored: not near the bound.
        assert len(await bed.api.get(path)) < 1_300_000
        unbounded = build_status_patch(None, whole, "2026-11-24T00:00:00Z")
        with pytest.raises(ApiError, match=r"large|size|limit"):
            await api.patch(f"{path}/status", unbounded)


async def test_full_budget_is_reported_in_bytes_and_deletion_frees_room(bed: Bed):
    host = bed.registry.host
    one, two = [await image(host, bed.folder, "team/add", kernel) for kernel in ("one", "two")]
    await bed.create(host)
    # Each says 561 bytes, and takes 583 with its paths rewritten.
    bed.start("--max-gib", f"{900 / GIB:.15f}")
    await bed.cache(f"{host}/team/add:v1", one.digest, "one")
    await bed.until("Ready", one.digest, "one")
    await bed.cache(f"{host}/team/add:v1", two.digest, "two")
    found = await bed.until("Extracted", two.digest, "two", status="False", reason="OverBudget")
    words = "the cache needs 561 bytes, but 583 bytes of the 899 bytes for caches on this node are in use"
    assert words in found["message"]
    await bed.delete("one")
    await bed.until("Ready", two.digest, "two")
    await bed.until_true(lambda: len(bed.folders()) == 1)
    assert not bed.link("one").is_symlink()


async def test_withdrawn_digest_is_hidden_from_new_pods_and_kept_for_running_pods(bed: Bed):
    made = await deliver(bed)
    await bed.pod("runs")
    await bed.distrust()
    # The controller's verdict may be late: the node does not wait for it.
    await bed.until("Ready", made.digest, status="False", reason="NotCovered")
    assert bed.link().is_symlink()
    assert not bed.link().exists(), "a pod must wait, and not start with an empty folder"
    await bed.resolve("", verified="False")
    await bed.until_true(lambda: len(bed.folders()) == 1)
    await bed.trust(bed.registry.host)
    asked = len(bed.registry.requests)
    await bed.resolve(made.digest)
    await bed.until("Ready", made.digest)
    assert bed.leads_to(made.digest)
    assert len(bed.registry.requests) == asked, "what it satisfied before, it satisfies again"


@pytest.mark.extended
async def test_registry_outage_keeps_digest_with_expired_verdict(bed: Bed):
    host, away = bed.registry.host, [False]
    made = await image(host, bed.folder, "team/add")
    failing = misbehaviour.failing(503)
    bed.registry.on("*", ".*", lambda request: failing(request) if away[0] else None)
    await bed.create(host)
    bed.start()
    await bed.cache(f"{host}/team/add:v1", made.digest)
    await bed.until("Ready", made.digest)
    bed.kill()
    bed.make_verdicts_older(2 * 24 * 3600)
    away[0] = True
    bed.start()
    async with asyncio.timeout(DEADLINE):
        while "RegistryUnavailable" not in (found := await bed.condition("Ready", made.digest))["message"]:
            await asyncio.sleep(0.05)
    assert found["status"] == "True"
    assert (await bed.condition("Extracted", made.digest))["status"] == "True"
    assert bed.leads_to(made.digest)
    away[0] = False
    async with asyncio.timeout(DEADLINE):
        while (await bed.condition("Ready", made.digest))["message"]:
            await asyncio.sleep(0.05)
