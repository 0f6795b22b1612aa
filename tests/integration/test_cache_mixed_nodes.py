"""Nodes with different cards: the controller and two agents as processes, on one real API server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cache_agent_bed import MOUNT_PATH, Bed
from cache_agent_stand import open_bed
from cache_controller_process import Caches, CacheSite, condition
from conftest import Sandbox

from accelkit.gkm.objects import Cache
from accelkit.model.keys import CACHE_PINNED_ANNOTATION

pytest_plugins = ["cache_fixtures"]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
AFFINITY = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class Cluster:
    """Two nodes and their agents, of which one can load kernels of CUDA."""

    caches: Caches
    namespace: str
    fits: Bed
    misfit: Bed

    async def create(self, **spec: str) -> tuple[str, str, str]:
        """Make a cache for CUDA cards; its path, its digest, and the path of its layer in the registry are returned."""
        repository = f"{self.caches.unique('team')}/app"
        image = await self.caches.publish(repository, signer=self.caches.signer)
        await self.caches.policy(self.caches.images(repository))
        layer = json.loads(image.manifest)["layers"][0]["digest"]
        path = await self.caches.create(self.namespace, repository, name="add", mountPath=MOUNT_PATH, **spec)
        return path, image.digest, f"/v2/{repository}/blobs/{layer}"


@pytest.fixture
async def cluster(site: CacheSite, control_plane: Sandbox, kubeconfig: Path, tmp_path: Path) -> AsyncIterator[Cluster]:
    folders = [tmp_path / name for name in ("fits", "misfit")]
    for folder in folders:
        folder.mkdir()
    async with site.make_caches(tmp_path) as caches:
        namespace = await caches.namespace()
        async with (
            open_bed(control_plane, kubeconfig, folders[0], namespace) as fits,
            open_bed(control_plane, kubeconfig, folders[1], namespace) as misfit,
        ):
            for bed, kernels in ((fits, "cuda:90"), (misfit, "hip:gfx942")):
                await bed.join(site.registry.host, kernels=kernels)
                bed.start()
            yield Cluster(caches, namespace, fits, misfit)


def judged(cache: Cache) -> bool:
    return condition(cache, "Compatible") == ("True", "PartlyCompatible")


async def test_incompatible_node_does_not_block_compatible_node(cluster: Cluster):
    path, digest, layer = await cluster.create()
    await cluster.fits.until("Ready", digest)
    found = await cluster.misfit.until("Compatible", digest, status="False", reason="Incompatible")
    assert "BackendMismatch" in found["message"]
    cache = await cluster.caches.becomes(path, lambda cache: judged(cache) and condition(cache, "Ready")[0] == "True")
    assert condition(cache, "Degraded")[0] == "False"
    told = {each.type: each.message for each in cache.status.conditions}
    assert told["Compatible"] == f"compatible nodes: 1; incompatible: {cluster.misfit.node}"
    assert told["Ready"] == "pods can use the cache on 1 of 2 nodes"
    counts = cache.status.counts
    assert (counts.node_cnt, counts.node_not_in_use_cnt, counts.node_error_cnt) == (2, 1, 0)
    # Its layer was asked for once, by the node that has it.
    assert cluster.fits.leads_to(digest)
    assert len(cluster.caches.registry.received("GET", layer)) == 1
    assert not cluster.misfit.folders()
    assert not cluster.misfit.link().is_symlink()


async def test_pod_prefers_node_compatible_with_its_cache(cluster: Cluster, site: CacheSite, tmp_path: Path):
    async with site.serve_webhook(cluster.caches.api, tmp_path):
        path, digest, _ = await cluster.create()
        await cluster.fits.until("Ready", digest)
        await cluster.misfit.until("Ready", digest, status="False", reason="Incompatible")
        await cluster.caches.becomes(path, lambda cache: condition(cache, "Ready")[0] == "True")
        pod = json.loads(await cluster.caches.api.get(await cluster.caches.pod(cluster.namespace, "add")))
        assert pod["metadata"]["annotations"][CACHE_PINNED_ANNOTATION] == digest
        (term,) = pod["spec"]["affinity"]["nodeAffinity"][AFFINITY]
        (expression,) = term["preference"]["matchExpressions"]
        assert (expression["key"], expression["values"]) == ("kubernetes.io/hostname", [cluster.fits.node])


async def test_compatibility_is_reported_if_nodes_hold_no_files(cluster: Cluster):
    path, digest, layer = await cluster.create(delivery="namespace")
    await cluster.fits.until("Compatible", digest)
    await cluster.misfit.until("Compatible", digest, status="False", reason="Incompatible")
    cache = await cluster.caches.becomes(path, judged)
    assert condition(cache, "Effective") == ("Unknown", "NotMeasured")
    assert condition(cache, "Outdated") == ("False", "Current")
    assert condition(cache, "Extracted")[0] == "False"
    assert not cluster.caches.registry.received("GET", layer)
    assert not cluster.fits.folders() | cluster.misfit.folders()
