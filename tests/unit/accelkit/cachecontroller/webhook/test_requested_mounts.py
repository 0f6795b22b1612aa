"""Pods that ask for a cache by annotation: mounts, variables, nodes; and what they cannot ask for."""

import pytest
from webhook_pods import (
    DIGEST,
    FORMER,
    IMAGE,
    NAMESPACE,
    PINNED,
    apply,
    change,
    changed,
    copies,
    make_cache,
    make_pod,
    volumes,
    writable_claims,
)

from accelkit.cachecontroller.webhook.mutation import Tools
from accelkit.gkm.objects import CacheMount, PvcStatus
from accelkit.model.keys import CACHE_MOUNT_ANNOTATION

ROOT = "/home/vllm/.cache/vllm"
VLLM = {
    "mount_path": ROOT,
    "variables": {"VLLM_CACHE_ROOT": ROOT, "TRITON_CACHE_DIR": "/root/.triton"},
    "mounts": [CacheMount(ROOT), CacheMount("/root/.triton", "triton"), CacheMount(f"{ROOT}/inner", "inner")],
}


def asking(text, **fields):
    """A pod that asks by annotation."""
    return make_pod(claim="", annotations={CACHE_MOUNT_ANNOTATION: text, **fields.pop("annotations", {})}, **fields)


def test_first_container_receives_private_copy_at_cache_path_and_variables():
    after = changed(asking("kernels", beside=[{"name": "log", "image": "x"}]), make_cache())
    (copy,) = copies(after)
    main, log = after["spec"]["containers"]
    assert main["volumeMounts"] == [{"name": copy["name"], "mountPath": "/cache"}]
    assert {each["name"]: each["value"] for each in main["env"]} == {
        "TRITON_CACHE_DIR": "/cache",
        "VLLM_CACHE_ROOT": "/cache",
    }
    assert "volumeMounts" not in log
    source = volumes(after)[copy["volumeMounts"][0]["name"]]
    assert source == {"persistentVolumeClaim": {"claimName": PINNED, "readOnly": True}}
    assert writable_claims(after) == []


def test_each_tree_of_split_capture_receives_own_mount_and_variable():
    after = changed(asking("kernels"), make_cache(**VLLM))
    main, (copy,) = after["spec"]["containers"][0], copies(after)
    assert main["volumeMounts"] == [
        {"name": copy["name"], "mountPath": ROOT},
        {"name": copy["name"], "mountPath": "/root/.triton", "subPath": "triton"},
    ]
    assert {each["name"]: each["value"] for each in main["env"]} == VLLM["variables"]
    assert copy["args"][6:] == []
    after = changed(asking("kernels=main:/elsewhere/"), make_cache(**VLLM))
    main, (copy,) = after["spec"]["containers"][0], copies(after)
    assert [each["mountPath"] for each in main["volumeMounts"]] == ["/elsewhere", "/root/.triton"]
    assert {each["name"]: each["value"] for each in main["env"]} == {
        "VLLM_CACHE_ROOT": "/elsewhere",
        "TRITON_CACHE_DIR": "/root/.triton",
    }
    assert copy["args"][6:] == ["--mount-path", "/elsewhere", "--tree", "triton=/root/.triton"]


def test_variable_follows_mount_path_unless_user_sets_another_value():
    cache = make_cache(variables={"PT_HPU_RECIPE_CACHE_CONFIG": "/cache,false,8192"})
    after = changed(asking("kernels=main:/recipes"), cache)
    expected = {"name": "PT_HPU_RECIPE_CACHE_CONFIG", "value": "/recipes,false,8192"}
    assert after["spec"]["containers"][0]["env"] == [expected]
    env = [{"name": "VLLM_CACHE_ROOT", "value": "/mine"}, {"name": "TRITON_CACHE_DIR", "value": "/cache"}]
    done = change(pod := asking("kernels", main={"env": env}), make_cache())
    assert apply(done, pod)["spec"]["containers"][0]["env"] == env
    assert [each.split(";")[0] for each in done.warnings] == ["container main sets VLLM_CACHE_ROOT to /mine"]


def test_containers_with_same_path_share_copy_and_default_container_is_used():
    beside = [{"name": "second", "image": "x"}, {"name": "third", "image": "x"}]
    after = changed(asking("kernels, kernels=second kernels=third:/own", beside=beside), make_cache())
    named = [each["volumeMounts"][0]["name"] for each in after["spec"]["containers"]]
    assert named[0] == named[1] != named[2]
    assert len(copies(after)) == 2
    pod = asking(
        "kernels",
        beside=[{"name": "second", "image": "x"}],
        annotations={"kubectl.kubernetes.io/default-container": "second"},
    )
    first, second = changed(pod, make_cache())["spec"]["containers"]
    assert ("volumeMounts" in first, "volumeMounts" in second) == (False, True)


def test_container_that_already_mounts_claim_receives_only_variables():
    pod = make_pod(
        {"name": "files", "mountPath": "/cache", "readOnly": True}, annotations={CACHE_MOUNT_ANNOTATION: "kernels"}
    )
    after = changed(pod, make_cache())
    assert copies(after) == []
    assert len(after["spec"]["containers"][0]["env"]) == 2
    written = changed(
        make_pod({"name": "files", "mountPath": "/cache"}, annotations={CACHE_MOUNT_ANNOTATION: "kernels"}),
        make_cache(),
    )
    assert len(copies(written)) == 1


def test_pod_prefers_nodes_with_ready_cache_unless_affinity_is_set():
    tools = Tools(IMAGE, find_hosts=lambda _cache: ["b", "a"])
    after = changed(asking("kernels"), make_cache(), tools=tools)
    (term,) = after["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a", "b"]}
    assert term["preference"] == {"matchExpressions": [expression]}
    mine = {"weight": 1, "preference": {"matchExpressions": [{**expression, "values": ["c"]}]}}
    own = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [mine]}}
    assert changed(asking("kernels", affinity=own), make_cache(), tools=tools)["spec"]["affinity"] == own
    # Who mounts its claim would wait on the others as long.
    claimed = changed(make_pod({"name": "files", "mountPath": "/cache"}), make_cache(), tools=tools)
    assert claimed["spec"]["affinity"] == after["spec"]["affinity"]
    former = make_cache(resolved_digest=FORMER, previous_digests=[DIGEST])
    assert (
        "affinity"
        not in changed(make_pod({"name": "files", "mountPath": "/cache"}, claim=PINNED), former, tools=tools)["spec"]
    )
    many = Tools(IMAGE, find_hosts=lambda _cache: [f"n{number}" for number in range(101)])
    assert "affinity" not in changed(asking("kernels"), make_cache(), tools=many)["spec"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "missing",
            "names kernel cache 'missing', which does not exist in namespace 'models'; existing caches: kernels",
        ),
        ("kernels=other", "names the unknown container 'other'; use one of: main"),
        ("kernels=main:relative", "use NAME"),
        ("kernels=main:/a/../b", "use NAME"),
        ("../kernels", "use NAME"),
        (" ".join(f"kernels=main:/{number}" for number in range(17)), "over the limit of 16"),
    ],
)
def test_invalid_mount_request_is_refused_with_reason(text, words):
    assert words in change(asking(text), make_cache()).refusal


def test_only_missing_cache_is_reported_as_unknown_and_used_path_is_refused():
    assert change(asking("missing"), make_cache()).unknown == ("missing",)
    assert change(asking("kernels=other"), make_cache()).unknown == ()
    pod = asking("kernels")
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/cache/"}]
    pod["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
    assert "has another volume mounted at /cache" in change(pod, make_cache()).refusal


def test_mount_request_needs_path_if_cache_path_is_unknown():
    cache = make_cache(mount_path="", resolved_digest="", pvc_status={NAMESPACE: PvcStatus()})
    assert "request kernels=main:/PATH" in change(asking("kernels"), cache).refusal
    after = changed(asking("kernels=main:/here"), cache)
    assert after["spec"]["containers"][0]["volumeMounts"][0]["mountPath"] == "/here"
    assert copies(after)[0]["args"][6:] == ["--mount-path", "/here"]


@pytest.mark.parametrize("relocatable", [True, False, None])
def test_files_are_rewritten_for_requested_path_unless_relocatable(relocatable):
    after = changed(asking("kernels=main:/here"), make_cache(relocatable=relocatable))
    assert copies(after)[0]["args"][6:] == ([] if relocatable else ["--mount-path", "/here"])


@pytest.mark.parametrize(
    ("env", "warned"),
    [
        ({"name": "VLLM_USE_X", "value": "1"}, True),
        ({"name": "VLLM_USE_X", "value": "False"}, False),
        ({"name": "VLLM_SECRET", "value": "1"}, False),
        ({"name": "VLLM_NOT_RECORDED", "value": "1"}, False),
        ({"name": "VLLM_CACHE_ROOT", "value": "/cache"}, False),
        ({"name": "VLLM_USE_X", "valueFrom": {"secretKeyRef": {"name": "status.podIP", "key": "x"}}}, False),
        ({"name": "VLLM_USE_X", "value": "$(OF_NODE)"}, False),
        ({"name": "VLLM_USE_X", "value": "off"}, False),
        ({"name": "VLLM_USE_X"}, True),
        ({"name": "OTHER", "value": "1"}, False),
    ],
)
@pytest.mark.parametrize("writable", [True, False])
def test_variables_that_differ_from_capture_are_reported(env, warned, writable):
    recorded = {"VLLM_USE_X": "0", "VLLM_SECRET": "[redacted]", "VLLM_CACHE_ROOT": "/build", "OTHER": "0"}
    files = {"name": "files", "mountPath": "/cache", **({} if writable else {"readOnly": True})}
    done = change(make_pod(files, main={"env": [env]}), make_cache(recorded_environment=recorded))
    assert [("was captured with '0'" in each) for each in done.warnings] == ([True] if warned else [])


@pytest.mark.parametrize(
    ("field", "each"),
    [
        ("status.podIP", "pod"),
        ("metadata.name", "pod"),
        ("status.hostIP", "node"),
        ("spec.nodeName", "node"),
        ("metadata.namespace", ""),
        ("metadata.labels['app']", ""),
    ],
)
@pytest.mark.parametrize("name", ["VLLM_HOST_IP", "VLLM_SECRET", "VLLM_NOT_RECORDED", "OTHER"])
def test_variables_with_different_value_in_each_pod_are_reported(name, field, each):
    """Whatever it was at the capture, vLLM looks for its work under another name."""
    recorded = {"VLLM_HOST_IP": "10.0.0.1", "VLLM_SECRET": "[redacted]", "OTHER": "0"}
    env = {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}}
    done = change(
        make_pod({"name": "files", "mountPath": "/cache"}, main={"env": [env]}),
        make_cache(recorded_environment=recorded),
    )
    told = bool(each) and name in {"VLLM_HOST_IP", "VLLM_SECRET"}
    assert [f"sets {name} to {field}, which differs for each {each};" in warning for warning in done.warnings] == [
        True
    ] * told
