import pytest

from accelkit.errors import ApiError, ServiceError
from accelkit.install import pruning
from accelkit.install.pruning import KINDS, ObjectKey, list_keys, prune
from accelkit.kube.ownership import OWNER_LABELS
from accelkit.kube.paths import build_collection_path

DEPLOYMENTS = "/apis/apps/v1/deployments"
LEASES = "/apis/coordination.k8s.io/v1/leases"
SECRETS = "/api/v1/secrets"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(pruning, "_POLL_SECONDS", 0.0)


def made(name, namespace="accelkit", component="extender", **labels):
    labels = {**OWNER_LABELS, "app.kubernetes.io/component": component, **labels}
    return {"metadata": {"name": name, "labels": labels} | ({"namespace": namespace} if namespace else {})}


async def run(api, component="extender", keep=(), namespaces=("accelkit",), **options):
    pruned = await prune(api, component=component, keep=keep, timeout_seconds=5, namespaces=namespaces, **options)
    return [str(key) for key in pruned.deleted]


def bind(namespace):
    """A ClusterRoleBinding of ours, which only administrators can write."""
    return {**made("agents", namespace="", component="node-agent"), "subjects": [{"namespace": namespace}, {}]}


async def test_prune_deletes_unwanted_objects_of_the_component_in_all_namespaces(api):
    api.store(DEPLOYMENTS, made("wanted"))
    api.store(DEPLOYMENTS, made("former", namespace="elsewhere"))
    api.store(DEPLOYMENTS, made("other", component="node-agent"))
    api.store(DEPLOYMENTS, made("foreign", **{"app.kubernetes.io/managed-by": "Helm"}))
    api.store("/apis/rbac.authorization.k8s.io/v1/clusterroles", made("role", namespace=""))
    api.store(BINDINGS, bind("elsewhere"))
    keep = list_keys([{"apiVersion": "apps/v1", "kind": "Deployment", **made("wanted")}])
    assert await run(api, keep=keep) == ["ClusterRole role", "Deployment elsewhere/former"]
    del api.objects[f"{BINDINGS}/agents"]
    assert sorted(api.objects) == [
        f"/apis/apps/v1/namespaces/accelkit/deployments/{name}" for name in ("foreign", "other", "wanted")
    ]
    assert await run(api, keep=keep) == []


async def test_prune_ignores_owner_labels_written_by_tenants(api):
    api.store(BINDINGS, bind("accelkit"))
    api.store("/apis/rbac.authorization.k8s.io/v1/rolebindings", bind("a-team") | made("mine", namespace="a-team"))
    api.store("/api/v1/configmaps", made("never-goes", namespace="a-team"))
    api.store(DEPLOYMENTS, made("extender"))
    pruned = await prune(api, component="", keep=(), timeout_seconds=5)
    assert pruned.namespaces == ["accelkit", "kube-system"]
    assert [str(key) for key in pruned.deleted] == ["ClusterRoleBinding agents", "Deployment accelkit/extender"]


async def test_prune_deletes_lease_of_deleted_deployment_only(api):
    api.store(DEPLOYMENTS, made("scheduler"))
    for name in ("scheduler", "somebody"):
        api.store(LEASES, {"metadata": {"name": name, "namespace": "accelkit"}})
    assert await run(api) == ["Deployment accelkit/scheduler", "Lease accelkit/scheduler"]
    assert list(api.objects) == ["/apis/coordination.k8s.io/v1/namespaces/accelkit/leases/somebody"]


async def test_prune_without_component_deletes_every_kind_in_safe_order(api):
    for kind in KINDS:
        api.store(build_collection_path(kind.versions[0], kind.plural), made(f"a-{kind.plural}", namespace=""))
    api.store(SECRETS, {"metadata": {"name": "registry", "namespace": "default"}})
    assert len(await run(api, component="", namespaces=["a-namespaces"])) == len(KINDS)
    assert list(api.objects) == ["/api/v1/namespaces/default/secrets/registry"]
    order = [request.path.rpartition("/a-")[2] for request in api.done if request.method == "DELETE"]
    for first, second in (
        ("deployments", "serviceaccounts"),
        ("clusterroles", "validatingadmissionpolicies"),
        ("validatingadmissionpolicybindings", "validatingadmissionpolicies"),
        ("secrets", "namespaces"),
    ):
        assert order.index(first) < order.index(second)


async def test_prune_reads_former_api_version_of_missing_kind(api):
    api.fail(ApiError("no such kind", status=404), path="/apis/batch/v1/cronjobs", times=None)
    api.fail(ApiError("no such kind", status=404), path="validatingadmission", times=None)
    api.store("/apis/batch/v1beta1/cronjobs", made("renewal"))
    assert await run(api) == ["CronJob accelkit/renewal"]
    assert not api.objects


async def test_check_mode_deletes_nothing(api):
    api.store(DEPLOYMENTS, made("former"))
    assert await run(api, check=True) == ["Deployment accelkit/former"]
    assert not api.writes


async def test_object_that_remains_after_timeout_is_named(api):
    api.store(SECRETS, made("held"))
    api.lingering["secrets"] = -1
    with pytest.raises(ServiceError, match=r"^cannot delete Secret accelkit/held: it still exists after the timeout"):
        await prune(api, component="extender", keep=(), timeout_seconds=0, namespaces=["accelkit"])


async def test_refused_list_is_an_error_and_deletes_nothing(api):
    api.store(DEPLOYMENTS, made("former"))
    api.fail(ApiError("secrets is forbidden", status=403), path="/secrets")
    with pytest.raises(ApiError, match="forbidden"):
        await run(api)
    assert not api.writes


def test_object_key_string_contains_kind_namespace_and_name():
    assert str(ObjectKey("Secret", "kube-system", "registry")) == "Secret kube-system/registry"


async def test_prune_reports_components_including_retained_crds(api):
    definitions = build_collection_path("apiextensions.k8s.io/v1", "customresourcedefinitions")
    api.store(definitions, made("gkmcaches.gkm.io", namespace="", component="kernel-caches"))
    api.store(DEPLOYMENTS, made("extender"))
    api.store(DEPLOYMENTS, made("elsewhere", namespace="a-team", component="a-tenant-says"))
    api.store("/api/v1/namespaces", {"metadata": {"name": "accelkit", "labels": OWNER_LABELS}})
    options = {"component": "", "keep": (), "timeout_seconds": 5, "namespaces": ["accelkit"]}
    pruned = await prune(api, check=True, **options)
    assert pruned.components == ["extender", "kernel-caches"]
    pruned = await prune(api, **options)
    assert pruned.components == ["extender", "kernel-caches"]
    assert sorted(name.rpartition("/")[2] for name in api.objects) == ["elsewhere", "gkmcaches.gkm.io"]


async def test_prune_deletes_quotas_in_tenant_namespaces(api):
    api.store("/api/v1/resourcequotas", made("accelkit-cards", namespace="a-team", component="partitioning"))
    api.store("/api/v1/configmaps", made("forged", namespace="a-team", component="partitioning"))
    assert await run(api, component="partitioning") == ["ResourceQuota a-team/accelkit-cards"]
