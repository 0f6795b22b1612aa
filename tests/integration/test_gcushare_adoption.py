"""GCUShare's Helm releases, stored as Helm 3 stores them, taken over on a real API server."""

from __future__ import annotations

import base64
import gzip
import json
from contextlib import suppress

import pytest
from support.waiting import until

from accelkit.errors import ApiError
from accelkit.install.adoption import adopt_gcushare
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.objects import get_if_present

pytestmark = pytest.mark.integration

NAMESPACE = "gcushare-test"
MANIFEST = """\
---
# Source: gcushare-device-plugin/templates/config.yaml
apiVersion: v1
kind: ConfigMap
metadata:
  name: gcushare
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: kept
  annotations:
    helm.sh/resource-policy: keep
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: gcushare-device-plugin
---
apiVersion: gone.example.com/v1
kind: Gone
metadata:
  name: nobody-knows
"""


def stored(chart: str, manifest: str) -> str:
    release = {"name": "x", "chart": {"metadata": {"name": chart}}, "manifest": manifest}
    inner = base64.b64encode(gzip.compress(json.dumps(release).encode()))
    return base64.b64encode(inner).decode()


def secret(name: str, version: int, data: dict) -> dict:
    labels = {"owner": "helm", "name": name, "version": str(version), "status": "deployed"}
    metadata = {"name": f"sh.helm.release.v1.{name}.v{version}", "labels": labels}
    return {"metadata": metadata, "type": "helm.sh/release.v1", "data": data}


@pytest.fixture
async def api(control_plane):
    async with ApiClient(load_connection(control_plane.kubeconfig)) as client:
        with suppress(ApiError):
            await client.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        yield client
        # A namespace takes its time to go, so the tests share one.
        for kind in ("secrets", "configmaps"):
            await client.delete(f"/api/v1/namespaces/{NAMESPACE}/{kind}")


async def exists(api: ApiClient, path: str) -> bool:
    return await get_if_present(api, path) is not None


async def gone(api: ApiClient, path: str) -> None:
    await until(lambda: exists(api, path), accept=lambda found: not found)


async def install(api: ApiClient) -> None:
    core = f"/api/v1/namespaces/{NAMESPACE}"
    written = {"meta.helm.sh/release-name": "plugin", "meta.helm.sh/release-namespace": NAMESPACE}
    for name in ("gcushare", "kept"):
        await api.post(f"{core}/configmaps", {"metadata": {"name": name, "annotations": written}})
    role = {"metadata": {"name": "gcushare-device-plugin", "annotations": written}}
    await api.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    older = stored("gcushare-device-plugin", "")
    await api.post(f"{core}/secrets", secret("plugin", 9, {"release": older}))
    await api.post(f"{core}/secrets", secret("plugin", 10, {"release": stored("gcushare-device-plugin", MANIFEST)}))
    await api.post(f"{core}/secrets", secret("other", 1, {"release": stored("nginx", MANIFEST)}))
    await api.patch("/api/v1/nodes/node-1", {"metadata": {"labels": {"enflame.com/gcushare": "true"}}})


async def test_adoption_uninstalls_releases_and_replaces_node_label(api):
    await install(api)
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/gcushare-device-plugin"
    core = f"/api/v1/namespaces/{NAMESPACE}"
    try:
        preview = await adopt_gcushare(api, check=True)
        assert (preview.releases, preview.nodes) == ([f"{NAMESPACE}/plugin"], ["node-1"])
        assert await exists(api, role)

        assert await adopt_gcushare(api) == preview
        # The garbage collector of Kubernetes removes what is deleted in the foreground.
        for path in (role, f"{core}/configmaps/gcushare"):
            await gone(api, path)
        assert not await exists(api, f"{core}/secrets/sh.helm.release.v1.plugin.v9")
        assert await exists(api, f"{core}/configmaps/kept")
        assert await exists(api, f"{core}/secrets/sh.helm.release.v1.other.v1")
        labels = json.loads(await api.get("/api/v1/nodes/node-1"))["metadata"]["labels"]
        assert "enflame.com/gcushare" not in labels
        assert labels["accelkit.io/share"] == "true"

        again = await adopt_gcushare(api)
        assert (again.releases, again.nodes) == ([], [])
    finally:
        labels = {"enflame.com/gcushare": None, "accelkit.io/share": None}
        await api.patch("/api/v1/nodes/node-1", {"metadata": {"labels": labels}})
