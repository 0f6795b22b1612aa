"""Pods that mount a cache's claim: pinned read-only, or given a copy of their own; those that lie among them."""

import copy

import pytest
from webhook_pods import (
    CLAIM,
    DIGEST,
    FORMER,
    IMAGE,
    NAMESPACE,
    OUTDATED,
    PINNED,
    apply,
    change,
    changed,
    copies,
    make_cache,
    make_pod,
    mount,
    volumes,
    writable_claims,
)

from accelkit.cachecontroller.webhook.mutation import Tools
from accelkit.gkm.conditions import Condition, ConditionType, state
from accelkit.gkm.objects import PvcStatus
from accelkit.model.keys import CACHE_PINNED_ANNOTATION, CACHE_WRITABLE_ANNOTATION

READ_ONLY = {"persistentVolumeClaim": {"claimName": PINNED, "readOnly": True}}


@pytest.mark.parametrize(
    "pod",
    [
        make_pod(mount(readOnly=True)),
        make_pod(mount(), volume={"name": "files", "persistentVolumeClaim": {"claimName": CLAIM, "readOnly": True}}),
        make_pod(),
        make_pod(mount(readOnly=True), claim=PINNED),
    ],
    ids=["mount", "volume", "no mount", "pinned by the user"],
)
def test_read_only_pod_receives_claim_pinned_to_digest(pod):
    after = changed(pod, make_cache())
    assert volumes(after) == {"files": READ_ONLY}
    assert copies(after) == []
    assert after["metadata"]["annotations"] == {CACHE_PINNED_ANNOTATION: DIGEST}


def test_writing_pod_receives_private_copy_with_size_limit():
    after = changed(make_pod(mount()), make_cache(cache_bytes=0))
    assert volumes(after)[copies(after)[0]["name"]] == {"emptyDir": {}}
    pod = make_pod(mount(subPath="torch", readOnly=False), mount("/other", readOnly=True))
    done = change(pod, make_cache(cache_bytes=3 << 30))
    after = apply(done, pod)
    (filling,) = copies(after)
    assert volumes(after)["files"] == READ_ONLY
    assert volumes(after)[filling["name"]] == {"emptyDir": {"sizeLimit": "10240Mi"}}
    main = after["spec"]["containers"][0]
    assert main["volumeMounts"] == [
        mount(volume=filling["name"], subPath="torch", readOnly=False),
        mount("/other", volume=filling["name"], readOnly=True),
    ]
    assert filling["image"] == IMAGE
    assert filling["args"][:2] == ["cache", "private-copy"]
    assert filling["volumeMounts"] == [
        {"name": "files", "mountPath": "/accelkit/from", "readOnly": True},
        {"name": filling["name"], "mountPath": "/accelkit/to"},
    ]
    assert after["metadata"]["annotations"][CACHE_WRITABLE_ANNOTATION] == f"{filling['name']}={NAMESPACE}/{CLAIM}"
    assert writable_claims(after) == []


def test_copy_container_runs_before_first_writing_init_container():
    # As GKM's examples do it: root changes the owner of all files in an init container.
    fixing = {"name": "fix-permissions", "image": "fedora", "volumeMounts": [mount("/kernel-caches")]}
    pod = make_pod(mount(readOnly=True), init=[fixing, {"name": "other", "image": "x", "restartPolicy": "Always"}])
    after = changed(pod, make_cache())
    names = [each["name"] for each in after["spec"]["initContainers"]]
    assert names == [copies(after)[0]["name"], "fix-permissions", "other"]
    used = {each["name"] for c in (*after["spec"]["containers"], fixing) for each in c["volumeMounts"]}
    assert used == {"files", names[0]}  # that of `fixing` is as it was given
    assert after["spec"]["initContainers"][1]["volumeMounts"][0]["name"] == names[0]
    assert writable_claims(after) == []


def test_read_only_and_writable_volumes_of_one_claim_are_handled_separately():
    pod = make_pod(mount(readOnly=True), mount("/w", volume="second"))
    pod["spec"]["volumes"].append({"name": "second", "persistentVolumeClaim": {"claimName": CLAIM}})
    after = changed(pod, make_cache())
    assert volumes(after)["files"] == volumes(after)["second"] == READ_ONLY
    assert after["spec"]["containers"][0]["volumeMounts"][0] == mount(readOnly=True)
    assert len(copies(after)) == 1
    assert writable_claims(after) == []


def test_container_added_by_another_webhook_writes_to_same_copy():
    cache, pod = make_cache(), make_pod(mount())
    first = changed(pod, cache)
    first["spec"]["containers"].append({"name": "sidecar", "image": "x", "volumeMounts": [mount("/late")]})
    after = changed(first, cache)
    assert after["spec"]["containers"][1]["volumeMounts"][0]["name"] == copies(after)[0]["name"]
    assert len(copies(after)) == 1
    assert writable_claims(after) == []


@pytest.mark.parametrize("claim", [PINNED, OUTDATED])
def test_pinned_claim_is_kept_and_mounted_read_only(claim):
    after = changed(make_pod(mount(), claim=claim), make_cache(previous_digests=[FORMER]))
    assert volumes(after)["files"]["persistentVolumeClaim"] == {"claimName": claim, "readOnly": True}
    assert after["metadata"]["annotations"][CACHE_PINNED_ANNOTATION] == (DIGEST if claim == PINNED else FORMER)
    assert writable_claims(after) == []


def test_digest_unknown_to_cache_is_reported():
    done = change(make_pod(mount(readOnly=True), claim="kernels-0123456789ab"), make_cache())
    assert [each["path"] for each in done.patch] == ["/metadata/annotations"]
    assert "no current digest of kernel cache kernels" in done.warnings[0]


@pytest.mark.parametrize("key", [CACHE_PINNED_ANNOTATION, CACHE_WRITABLE_ANNOTATION])
@pytest.mark.parametrize("claim", ["", CLAIM, "another"])
def test_annotations_set_by_users_are_not_accepted(key, claim):
    pod = make_pod(claim=claim, annotations={key: "sha256:" + "0" * 64, "mine": "stays"})
    annotations = changed(pod, make_cache())["metadata"]["annotations"]
    expected = {"mine": "stays", **({CACHE_PINNED_ANNOTATION: DIGEST} if claim == CLAIM else {})}
    assert annotations == expected


@pytest.mark.parametrize(
    "pod", [{}, {"metadata": {}, "spec": {}}, make_pod(mount(), claim="another"), make_pod(claim="")]
)
def test_unrelated_pods_are_not_changed(pod):
    done = change(pod, make_cache(), make_cache("x", "elsewhere"))
    assert (done.patch, done.warnings, done.refusal) == ((), (), "")


def test_caches_apply_only_in_their_own_namespaces():
    pod = make_pod(mount())
    assert change(pod, make_cache(namespace="elsewhere")).patch == ()
    of_cluster = make_cache(namespace="", spec={"workload_namespaces": ("elsewhere",)})
    assert change(pod, of_cluster).patch == ()
    here = make_cache(namespace="", spec={"workload_namespaces": ("elsewhere", NAMESPACE)})
    assert volumes(changed(pod, here))["files"] == READ_ONLY
    of_cluster = make_cache(namespace="", spec={"workload_namespaces": (NAMESPACE,)}, resolved_digest=FORMER)
    assert volumes(changed(make_pod(mount()), of_cluster, make_cache()))["files"] == READ_ONLY
    taken = Condition(type="Ready", status="False", reason="ClaimExists")
    cache = make_cache(pvc_status={NAMESPACE: PvcStatus(conditions=[taken])})
    assert change(make_pod(mount()), cache).patch == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"resolved_digest": ""},
        {"conditions": []},
        {"conditions": [state(ConditionType.VERIFIED, "Retrying", holds=None)]},
        {"conditions": [state(ConditionType.VERIFIED, "NotCovered", holds=False)], "pvc_status": {}},
    ],
    ids=["unresolved", "not judged", "retried", "refused before it was there"],
)
def test_pod_of_unverified_cache_keeps_claim_that_is_not_pinned(fields):
    after = changed(make_pod(mount()), make_cache(**fields))
    assert volumes(after)["files"]["persistentVolumeClaim"] == {"claimName": CLAIM, "readOnly": True}
    # Admission policies refuse a pod of a cache without the annotation.
    assert after["metadata"]["annotations"][CACHE_PINNED_ANNOTATION] == ""
    assert writable_claims(after) == []


def test_pods_of_unverified_or_deleted_cache_are_refused():
    withdrawn = state(ConditionType.VERIFIED, "NotCovered", "no policy covers it", holds=False)
    done = change(make_pod(mount(readOnly=True)), make_cache(conditions=[withdrawn]))
    assert "models/kernels is not verified (NotCovered: no policy covers it)" in done.refusal
    cache = make_cache(conditions=[withdrawn], resolved_digest="", previous_digests=(FORMER,), pvc_status={})
    assert "is not verified" in change(make_pod(mount(readOnly=True), claim=OUTDATED), cache).refusal
    done = change(make_pod(mount()), make_cache(meta={"deletion_timestamp": "2026-01-01T00:00:00Z"}))
    assert "is being deleted" in done.refusal


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("/var/lib/accelkit/kernel-caches", True),
        ("/var//lib/./accelkit/kernel-caches/claims/", True),
        ("/proc/1/root/var/lib/accelkit/kernel-caches", True),
        ("/proc/self/task/7/cwd", True),
        ("/proc/1/rooted", False),
        ("/var/lib/accelkit/kernel-caches-of-mine", False),
        ("/data", False),
    ],
)
def test_host_path_of_cache_folder_is_refused(path, refused):
    pod = make_pod(mount(readOnly=True))
    pod["spec"]["volumes"].append({"name": "host", "hostPath": {"path": path}})
    assert ("volume host exposes the kernel caches of the node" in change(pod, make_cache()).refusal) is refused


EPHEMERAL = {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}


@pytest.mark.parametrize(
    ("pod", "volume", "refused"),
    [
        ("kernels", "a1" * 6, True),
        # Of no digest that it has now; it may have it again.
        ("kernels", "c3" * 6, True),
        ("early", "bird", True),
        ("kernels", "data", False),
        ("early", "a1" * 6, False),
        # Its name is generated later, when a policy sees it.
        (None, "a1" * 6, False),
    ],
)
def test_ephemeral_volume_with_claim_name_of_cache_is_refused(pod, volume, refused):
    made = make_pod(mount(volume=volume), volume={"name": volume, "ephemeral": EPHEMERAL})
    made["metadata"] = {"name": pod} if pod else {"generateName": "kernels-"}
    done = change(made, make_cache(), make_cache("early-bird"))
    assert (f"ephemeral volume {volume} has the name of a kernel cache claim" in done.refusal) is refused
    assert done.patch == ()


def test_ephemeral_claim_older_than_cache_of_same_name_is_allowed():
    """A cache of its name came later, and has none there."""
    taken = PvcStatus(conditions=[state(ConditionType.READY, "ClaimExists", holds=False)])
    made = make_pod(mount(volume="bird"), volume={"name": "bird", "ephemeral": EPHEMERAL})
    made["metadata"] = {"name": "early"}
    assert change(made, make_cache("early-bird", pvc_status={NAMESPACE: taken})).refusal == ""


def test_reserved_names_of_private_copies_are_protected():
    pod = make_pod(mount())
    name = copies(changed(pod, make_cache()))[0]["name"]
    pod["spec"]["volumes"].append({"name": name, "hostPath": {"path": "/data"}})
    assert "is reserved for private copies" in change(pod, make_cache()).refusal
    pod = make_pod(mount())
    name = copies(changed(pod, make_cache()))[0]["name"]
    pod["spec"]["initContainers"] = [{"name": name, "image": "evil", "volumeMounts": [mount("/accelkit/to")]}]
    after = changed(pod, make_cache())
    assert [each["image"] for each in after["spec"]["initContainers"]] == [IMAGE]
    assert writable_claims(after) == []


def test_image_volume_replaces_claim_of_cache():
    reference = f"registry.example/cache@{DIGEST}"
    tools = Tools(IMAGE, build_image_volume=lambda _c, _d: ({"image": {"reference": reference}}, "io.triton.cache"))
    cache = make_cache(delivery="image")
    after = changed(make_pod(mount(readOnly=True), mount("/one", subPath="k", readOnly=True)), cache, tools=tools)
    assert volumes(after)["files"] == {"image": {"reference": reference}}
    assert [each["subPath"] for each in after["spec"]["containers"][0]["volumeMounts"]] == [
        "io.triton.cache",
        "io.triton.cache/k",
    ]
    assert after["metadata"]["annotations"][CACHE_PINNED_ANNOTATION] == DIGEST
    written = changed(make_pod(mount()), cache, tools=tools)
    assert copies(written)[0]["volumeMounts"][0]["subPath"] == "io.triton.cache"
    assert written["metadata"]["annotations"][CACHE_PINNED_ANNOTATION] == DIGEST


def test_long_cache_name_is_pinned_to_shortened_claim_name():
    name = "k" * 250
    after = changed(make_pod(mount(), claim=name), make_cache(name))
    claim = volumes(after)["files"]["persistentVolumeClaim"]["claimName"]
    assert len(claim) <= 253
    assert claim != name
    again = copy.deepcopy(after)
    assert changed(again, make_cache(name)) == after
