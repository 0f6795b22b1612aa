import base64
import gzip
import json

import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError, ConfigurationError
from accelkit.install.adoption import NODE_LABEL, adopt_gcushare
from accelkit.kube.paths import (
    NODES,
    build_collection_path,
    build_group_path,
    build_node_path,
    build_object_path,
    build_secrets_path,
)

MAPS, ROLES = (
    build_collection_path("v1", "configmaps", "d"),
    build_collection_path("rbac.authorization.k8s.io/v1", "clusterroles"),
)
SECRETS = build_secrets_path("d")
LAST = build_object_path(SECRETS, "sh.helm.release.v1.g.v10")
OF_RELEASE = {"meta.helm.sh/release-name": "g", "meta.helm.sh/release-namespace": "d"}
MANIFEST = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: gcushare}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kept, annotations: {helm.sh/resource-policy: keep}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: gcushare:plugin}
---
apiVersion: gone.example.com/v1
kind: Gone
metadata: {name: nobody-knows}
"""


def release(name, chart, manifest, version=1, *, values=None, config=None):
    """The Secret of one revision, as Helm 3 stores it."""
    stored = {"chart": {"metadata": {"name": chart}, "values": values}, "config": config, "manifest": manifest}
    content = json.dumps(stored).encode()
    labels = {"owner": "helm", "name": name, "version": str(version)}
    return {
        "metadata": {"name": f"sh.helm.release.v1.{name}.v{version}", "namespace": "d", "labels": labels},
        "data": {"release": base64.b64encode(base64.b64encode(gzip.compress(content))).decode()},
    }


def resource(name, kind, *, namespaced):
    return {"name": name, "kind": kind, "namespaced": namespaced}


@pytest.fixture
def api():
    """A cluster with a release of two revisions, another chart's release, and three nodes."""
    api = FakeApi()
    api.documents[build_group_path("v1")] = {"resources": [resource("configmaps", "ConfigMap", namespaced=True)]}
    roles = [
        resource("clusterroles/status", "ClusterRole", namespaced=False),
        resource("clusterroles", "ClusterRole", namespaced=False),
    ]
    api.documents[build_group_path("rbac.authorization.k8s.io/v1")] = {"resources": roles}
    for each in (
        release("g", "gcushare-device-plugin", "", version=9),
        release("g", "gcushare-device-plugin", MANIFEST, version=10),
        release("other", "prometheus", MANIFEST),
    ):
        api.store(SECRETS, each)
    for name in ("gcushare", "kept"):
        api.store(MAPS, {"metadata": {"name": name, "annotations": OF_RELEASE}})
    api.store(ROLES, {"metadata": {"name": "gcushare:plugin", "annotations": OF_RELEASE}})
    for name, labels in {"a": {NODE_LABEL: "true"}, "b": {NODE_LABEL: "false"}, "c": {}}.items():
        api.store(NODES, {"metadata": {"name": name, "labels": labels}})
    return api


def install(api, name, chart, **more):
    """Put a release there, or another revision of one."""
    api.store(SECRETS, release(name, chart, "", 11, **more))


def labels(api):
    return {name: api.objects[build_node_path(name)]["metadata"]["labels"] for name in "abc"}


async def test_adoption_uninstalls_releases_and_keeps_nodes_shared(api):
    found = await adopt_gcushare(api)
    assert (found.releases, found.nodes) == (["d/g"], ["a", "b"])
    assert labels(api) == {"a": {"accelkit.io/share": "true"}, "b": {}, "c": {}}
    left = {path for path in api.objects if not path.startswith(NODES)}
    assert left == {
        build_object_path(MAPS, "kept"),
        build_object_path(SECRETS, "sh.helm.release.v1.other.v1"),
    }
    again = await adopt_gcushare(api)
    assert (again.releases, again.nodes) == ([], [])


@pytest.mark.parametrize(
    "written",
    [None, {}, {**OF_RELEASE, "meta.helm.sh/release-namespace": "tenant"}, {"meta.helm.sh/release-name": "g"}],
)
async def test_adoption_keeps_objects_without_helm_annotations_of_the_release(api, written):
    # Anybody who may write a Secret can put a release there that names objects of others.
    role = build_object_path(ROLES, "gcushare:plugin")
    api.objects[role]["metadata"]["annotations"] = written
    await adopt_gcushare(api)
    assert role in api.objects
    assert build_object_path(MAPS, "gcushare") not in api.objects


async def test_non_numeric_revision_counts_as_the_oldest(api):
    api.store(SECRETS, release("g", "another", "", version="9999x"))
    assert (await adopt_gcushare(api, check=True)).releases == ["d/g"]


async def test_adoption_deletes_objects_in_reverse_order_and_release_secrets_last(api):
    await adopt_gcushare(api)
    deleted = [request for request in api.done if request.method == "DELETE"]
    assert [request.path.rpartition("/")[2] for request in deleted] == [
        "gcushare:plugin",
        "gcushare",
        "sh.helm.release.v1.g.v10",
        "sh.helm.release.v1.g.v9",
    ]
    assert [request.body for request in deleted] == [{"propagationPolicy": "Foreground"}] * 2 + [None] * 2


async def test_check_mode_writes_nothing(api):
    found = await adopt_gcushare(api, check=True)
    assert (found.releases, found.nodes) == (["d/g"], ["a", "b"])
    assert api.writes == []


async def test_refused_deletion_keeps_release_secret_for_retry(api):
    api.fail(ApiError("clusterroles is forbidden", status=403), "DELETE", ROLES)
    with pytest.raises(ApiError, match="is forbidden"):
        await adopt_gcushare(api)
    assert (await adopt_gcushare(api)).releases == ["d/g"]
    assert build_object_path(MAPS, "gcushare") not in api.objects


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({}, ".*; uninstall it with Helm"),
        ({"release": "!"}, ".*; uninstall it with Helm"),
        ({"release": base64.b64encode(b"bm90IEpTT04=").decode()}, ".*; uninstall it with Helm"),
        (release("g", "gcushare-device-plugin", "a: [")["data"], ": it is not YAML"),
    ],
    ids=["empty", "no base64", "no JSON", "no YAML"],
)
async def test_unreadable_release_is_an_error_and_changes_nothing(api, data, why):
    api.objects[LAST]["data"] = data
    with pytest.raises(ConfigurationError, match=rf"sh\.helm\.release\.v1\.g\.v10{why}"):
        await adopt_gcushare(api)
    assert api.writes == []


@pytest.mark.parametrize(
    ("values", "config", "unit"),
    [
        (None, None, "1GiB"),
        ({"memoryUnit": "0.1"}, None, "0.1GiB"),
        ({"memoryUnit": "1"}, {"memoryUnit": "0.01"}, "0.01GiB"),
        ({"memoryUnit": "1"}, {"memoryUnit": 0.001}, "0.001GiB"),
        ({"memoryUnit": 1.0}, {"deployName": "x"}, "1GiB"),
    ],
)
async def test_former_unit_is_read_from_release_and_recorded_on_nodes(api, values, config, unit):
    install(api, "g", "gcushare-device-plugin-chart", values=values, config=config)
    install(api, "s", "gcushare-scheduler-extender-chart", values={"replicaCount": 1})
    assert (await adopt_gcushare(api, check=True)).former_unit == unit
    assert api.writes == []
    api.fail(ApiError("no answer"), "DELETE", "sh.helm")
    with pytest.raises(ApiError):
        await adopt_gcushare(api)
    for name in [path for path in api.objects if "sh.helm" in path]:
        del api.objects[name]
    assert (await adopt_gcushare(api)).former_unit == unit
    assert (await adopt_gcushare(api)).former_unit == unit
    written = {name: api.objects[build_node_path(name)]["metadata"].get("annotations") for name in "abc"}
    assert written == {"a": {"accelkit.io/former-unit": unit}, "b": None, "c": None}


async def test_former_unit_is_empty_without_release(api):
    for name in [path for path in api.objects if "sh.helm" in path]:
        del api.objects[name]
    api.objects[build_node_path("c")]["metadata"]["annotations"] = {"accelkit.io/former-unit": "anything"}
    assert (await adopt_gcushare(api)).former_unit == ""


async def test_invalid_or_conflicting_units_are_errors_before_any_change(api):
    install(api, "g", "gcushare-device-plugin", values={"memoryUnit": "2"})
    with pytest.raises(
        ConfigurationError, match="cannot read memoryUnit of the Helm release d/g: '2' is not a unit of memory"
    ):
        await adopt_gcushare(api)
    install(api, "g", "gcushare-device-plugin", values={"memoryUnit": "0.1"})
    install(api, "h", "gcushare-device-plugin")
    with pytest.raises(
        ConfigurationError, match=r"different units of memory: d/g has 0\.1GiB, d/h has 1GiB; uninstall"
    ):
        await adopt_gcushare(api)
    assert api.writes == []
