"""Pods that see a cache elsewhere than where it is prepared get files that name each other by the pod's paths."""

import pytest
from webhook_pods import CLAIM, apply, change, changed, make_cache, make_pod, mount, volumes, writable_claims

from accelkit.cachecontroller.webhook.copying import PREFIX
from accelkit.gkm.objects import CacheMount, PvcStatus

SPLIT = {
    "capture_path": "/tmp/vllm",
    "mount_path": "/tmp/vllm",
    "mounts": [CacheMount("/tmp/vllm"), CacheMount("/tmp/triton", "triton")],
}
# Its pod may come in the same file.
NOT_LOOKED_AT = {"mount_path": "", "resolved_digest": "", "conditions": [], "pvc_status": {"models": PvcStatus()}}


def copies(pod):
    """What the init containers that fill private copies are told of paths."""
    init = pod["spec"].get("initContainers", [])
    return [each["args"][6:] for each in init if each["name"].startswith(PREFIX)]


def moved(path):
    return [["--mount-path", path]]


@pytest.mark.parametrize(
    ("mounts", "copied", "words"),
    [
        ([mount()], [[]], ""),
        # GKM's workloads, where the image does not say where it was captured.
        ([mount("/kernel-caches")], moved("/kernel-caches"), ""),
        ([mount("/kernel-caches/")], moved("/kernel-caches"), ""),
        ([mount("/elsewhere/torch", subPath="torch")], moved("/elsewhere"), ""),
        ([mount("/cache/torch", subPath="torch")], [[]], ""),
        ([mount("/x", subPathExpr="$(A)")], [[]], ""),
        ([mount("/a"), mount("/b")], moved("/a"), "is mounted at /a and at /b"),
        ([mount("/a"), mount("/cache", readOnly=True)], [[]], "is mounted at /cache and at /a"),
        ([mount("/cache", readOnly=True)], [], ""),
        ([mount("/a", readOnly=True)], moved("/a"), "gets a copy with rewritten paths"),
        ([mount("/a", readOnly=True), mount("/cache", readOnly=True)], [], "is mounted at /cache and at /a"),
        ([], [], ""),
    ],
)
def test_files_are_rewritten_for_mount_path_of_pod(mounts, copied, words):
    done = change(pod := make_pod(*mounts), make_cache())
    after = apply(done, pod)
    assert copies(after) == copied
    assert [each for each in done.warnings if words and words not in each] == []
    assert bool(done.warnings) is bool(words)
    assert writable_claims(after) == []


@pytest.mark.parametrize("volume_only", [True, False])
def test_read_only_mount_at_another_path_receives_read_only_copy(volume_only):
    claim = {"name": "files", "persistentVolumeClaim": {"claimName": CLAIM, "readOnly": volume_only}}
    after = changed(make_pod(mount("/a", **({} if volume_only else {"readOnly": True})), volume=claim), make_cache())
    (seen,) = after["spec"]["containers"][0]["volumeMounts"]
    assert "emptyDir" in volumes(after)[seen["name"]]
    assert seen == mount("/a", volume=seen["name"], readOnly=True)


@pytest.mark.parametrize("read_only", [True, False])
def test_relocatable_files_are_not_rewritten(read_only):
    done = change(pod := make_pod(mount("/elsewhere", readOnly=read_only)), make_cache(relocatable=True))
    assert copies(apply(done, pod)) == ([] if read_only else [[]])
    assert done.warnings == ()


def test_uninspected_cache_rewrites_copies_and_warns_about_read_only_mounts():
    cache = make_cache(**NOT_LOOKED_AT)
    done = change(pod := make_pod(mount("/kernel-caches")), cache)
    assert copies(apply(done, pod)) == moved("/kernel-caches")
    assert done.warnings == ()
    reading = change(pod := make_pod(mount("/kernel-caches", readOnly=True)), cache)
    assert copies(apply(reading, pod)) == []
    assert "set spec.mountPath" in reading.warnings[0]
    told = make_cache(**NOT_LOOKED_AT, spec={"mount_path": "/kernel-caches"})
    assert change(make_pod(mount("/kernel-caches", readOnly=True)), told).warnings == ()


def test_mount_path_of_init_container_is_ignored_if_main_container_mounts_cache():
    fixing = {"name": "fix", "image": "fedora", "volumeMounts": [mount("/prepared")]}
    done = change(pod := make_pod(mount("/kernel-caches"), init=[fixing]), make_cache())
    assert copies(apply(done, pod)) == moved("/kernel-caches")
    assert done.warnings == ()
    alone = changed(make_pod(init=[fixing]), make_cache())
    assert copies(alone) == moved("/prepared")


@pytest.mark.parametrize(
    ("root", "triton", "expected"),
    [
        ("/tmp/vllm", "/tmp/triton", []),
        ("/tmp/vllm", "/other", ["--mount-path", "/tmp/vllm", "--tree", "triton=/other"]),
        ("/moved", "/tmp/triton", ["--mount-path", "/moved", "--tree", "triton=/tmp/triton"]),
        ("/moved", "/moved/triton", ["--mount-path", "/moved"]),
        (None, "/tmp/triton", []),
    ],
)
def test_each_tree_of_split_capture_is_rewritten_for_its_mount_path(root, triton, expected):
    mounts = [mount(root)] if root else []
    done = change(pod := make_pod(*mounts, mount(triton, subPath="triton")), make_cache(**SPLIT))
    assert copies(apply(done, pod)) == [expected]
    assert done.warnings == ()


def test_container_added_by_another_webhook_does_not_change_existing_copy():
    cache = make_cache()
    first = changed(make_pod(mount("/kernel-caches")), cache)
    first["spec"]["containers"].append({"name": "sidecar", "image": "x", "volumeMounts": [mount("/late")]})
    done = change(first, cache)
    assert copies(apply(done, first)) == moved("/kernel-caches")
    assert "at /kernel-caches and at /late" in done.warnings[0]
