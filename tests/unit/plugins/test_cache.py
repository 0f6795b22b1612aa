import pytest
from ansible_collections.accelkit.kubernetes.plugins.modules import cache

from accelkit.gkm.conditions import Condition
from accelkit.gkm.objects import Cache, CacheMeta, CacheStatus
from accelkit.install.cache_objects import NodeReport

READY = Condition("Ready", "True", "Ready", "2 nodes have it")
MADE = Cache(
    CacheMeta(name="llama", namespace="team"),
    status=CacheStatus(resolved_digest="sha256:aa", mount_path="/cache", conditions=[READY]),
)
NODE = NodeReport("node-1", True, "Ready", "")


@pytest.fixture
def asked(kubeconfig, monkeypatch):
    """What the module asked of its engine; the cache had another image."""
    calls = []

    async def write(_api, request, *, check):
        calls.append(("write", request, check))
        return {"image": "former", "size": "1Gi"}, True

    async def wait(_api, request, *, seconds):
        calls.append(("wait", request, seconds))
        return MADE, [NODE]

    async def read(_api, request):
        calls.append(("read", request))
        return (None, []) if request.name == "new" else (MADE, [NODE])

    async def delete(_api, request, *, seconds, check):
        calls.append(("delete", request, seconds, check))
        return request.name == "llama"

    for name, function in {
        "write_cache": write,
        "wait_for_cache": wait,
        "read_cache": read,
        "delete_cache": delete,
    }.items():
        monkeypatch.setattr(cache, name, function)
    return calls


def test_module_options_are_written_to_spec_and_result_is_returned(run_module, asked):
    given = {
        "image": "quay.io/acme/llama:v1",
        "image_pull_secrets": ["quay"],
        "mount_path": "/cache",
        "delivery": "namespace",
        "access_modes": ["ReadWriteOnce", "ReadOnlyMany"],
        "storage_class_name": "fast",
        "size": "2Gi",
        "pod_template": {"spec": {"priorityClassName": "low"}},
    }
    answer = run_module(cache, {"name": "llama", "namespace": "team", "timeout": 7, **given})
    (written, request, check), waited = asked
    assert written == "write"
    assert (request.kind, request.namespace, request.name, check) == ("GKMCache", "team", "llama", False)
    assert request.spec == {
        "image": "quay.io/acme/llama:v1",
        "imagePullSecrets": [{"name": "quay"}],
        "mountPath": "/cache",
        "delivery": "namespace",
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "storageClassName": "fast",
        "size": "2Gi",
        "podTemplate": {"spec": {"priorityClassName": "low"}},
    }
    assert waited == ("wait", request, 7)
    assert answer["changed"]
    assert answer["ready"]
    assert answer["digest"] == "sha256:aa"
    assert answer["mount_path"] == "/cache"
    assert answer["nodes"] == [{"node": "node-1", "ready": True, "reason": "Ready", "message": ""}]
    assert answer["conditions"][0]["message"] == "2 nodes have it"


def test_omitted_options_are_not_written_and_diff_contains_changes(run_module, asked):
    answer = run_module(cache, {"name": "llama", "workload_namespaces": ["a"], "wait": False})
    assert asked[0][1].kind == "ClusterGKMCache"
    assert asked[0][1].spec == {"workloadNamespaces": ["a"]}
    assert [each[0] for each in asked] == ["write", "read"]
    former = {"image": "former", "size": "1Gi"}
    assert answer["diff"] == {"before": former, "after": {**former, "workloadNamespaces": ["a"]}}


def test_check_mode_does_not_wait_for_cache(run_module, asked):
    answer = run_module(cache, {"name": "new", "namespace": "team", "image": "i"}, check=True)
    assert [each[0] for each in asked] == ["write", "read"]
    assert asked[0][2] is True
    assert answer["changed"]
    assert "ready" not in answer


@pytest.mark.parametrize(("name", "wait", "seconds"), [("llama", True, 9), ("other", False, None)])
def test_absent_state_reports_change_only_for_existing_cache(run_module, asked, name, wait, seconds):
    given = {"state": "absent", "name": name, "namespace": "team", "timeout": 9, "wait": wait}
    answer = run_module(cache, given)
    assert asked[0][2:] == (seconds, False)
    assert answer["changed"] is (name == "llama")
    assert answer["diff"]["before"] == ("GKMCache team/llama\n" if name == "llama" else "")


@pytest.mark.parametrize(("kind", "namespace"), [("GKMCache", None), ("ClusterGKMCache", "team")])
def test_kind_that_contradicts_namespace_is_rejected(run_module, asked, kind, namespace):
    given = {"name": "llama", "kind": kind} | ({"namespace": namespace} if namespace else {})
    answer = run_module(cache, given)
    assert "set namespace for a GKMCache" in answer["msg"]
    assert asked == []
