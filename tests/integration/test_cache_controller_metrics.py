"""The port of a running `accelkit cache-controller`: what its metrics tell of what it did."""

from __future__ import annotations

from pathlib import Path

import pytest
from cache_controller_process import CacheSite, condition
from impersonation import is_done

from accelkit.gkm import names
from accelkit.kube.paths import build_collection_path, build_object_path

pytest_plugins = ["cache_fixtures"]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


async def test_metrics_count_caches_verdicts_writes_and_pods(site: CacheSite, tmp_path: Path):
    async with site.make_caches(tmp_path) as caches, site.serve_webhook(caches.api, tmp_path) as controller:
        namespace, team = await caches.namespace(), caches.unique("team")
        signed = await caches.publish(f"{team}/signed", signer=caches.signer)
        await caches.publish(f"{team}/unsigned")
        await caches.policy(caches.images(team))
        reports = build_collection_path(names.API, "gkmcachenodes", namespace)
        await caches.api.post(
            reports, {"apiVersion": names.API, "kind": "GKMCacheNode", "metadata": {"name": "node-1"}}
        )
        moment = "2026-01-01T00:00:00Z"
        ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": moment}
        status = {"nodeName": "node-1", "caches": {"kernels": {signed.digest: {"conditions": [ready]}}}}
        await caches.api.patch(f"{build_object_path(reports, 'node-1')}/status", {"status": status})
        good = await caches.create(namespace, f"{team}/signed", name="kernels")
        bad = await caches.create(namespace, f"{team}/unsigned")
        await caches.becomes(good, lambda cache: condition(cache, "Ready")[0] == "True")
        await caches.becomes(bad, lambda cache: condition(cache, "Verified")[0] == "False")
        await caches.pod(namespace, "kernels")
        shown = await controller.scrape()
        by_condition = {
            name: shown.get(f'accelkit_kernel_caches{{condition="{name[0]}",status="{name[1]}"}}', 0)
            for name in (("Verified", "True"), ("Verified", "False"), ("Ready", "True"), ("Ready", "False"))
        }
        assert set(by_condition.values()) == {1.0}, by_condition
        assert shown['accelkit_kernel_cache_judgements_total{result="verified"}'] >= 1
        assert shown['accelkit_kernel_cache_judgements_total{result="refused"}'] >= 1
        judged = sum(
            value for name, value in shown.items() if name.startswith("accelkit_kernel_cache_judgements_total")
        )
        assert shown["accelkit_kernel_cache_judgement_duration_seconds_count"] == judged
        # The claim that follows the cache, and that of its digest, with their volumes.
        assert shown['accelkit_kernel_cache_writes_total{result="done",verb="create"}'] >= 4
        assert shown['accelkit_kernel_cache_webhook_pods_total{result="changed"}'] == 1
        assert shown["accelkit_kernel_cache_node_failures"] == 0
        assert shown["accelkit_leader"] == 1
        assert "accelkit_kernel_cache_pass_failures_total" in shown
        await caches.api.delete(bad)
        await caches.gone(bad)
        assert 'accelkit_kernel_caches{condition="Verified",status="False"}' not in await controller.scrape()
        assert await is_done(caches.api.get(good))
