"""Pods that mount folders of a claim as MCV's newer releases extract them get the same files of ours."""

import pytest
from webhook_pods import changed, make_cache, make_pod, mount

from accelkit.gkm.objects import CacheMount

SPLIT = {
    "capture_path": "/tmp/vllm",
    "mount_path": "/tmp/vllm",
    "mounts": [CacheMount("/tmp/vllm"), CacheMount("/tmp/triton", "triton")],
}


def mounts(pod):
    return [
        (each["mountPath"], each.get("subPath", "")) for each in pod["spec"]["containers"][0].get("volumeMounts", [])
    ]


@pytest.mark.parametrize("read_only", [True, False])
def test_root_folder_of_capture_is_mapped_to_root_of_claim(read_only):
    pod = make_pod(
        mount("/tmp/vllm", subPath="vllm", readOnly=read_only),
        mount("/tmp/vllm/torch_compile_cache", subPath="vllm/torch_compile_cache", readOnly=read_only),
        mount("/tmp/triton", subPath="triton", readOnly=read_only),
    )
    assert mounts(changed(pod, make_cache(**SPLIT))) == [
        ("/tmp/vllm", ""),
        ("/tmp/vllm/torch_compile_cache", "torch_compile_cache"),
        ("/tmp/triton", "triton"),
    ]


def test_sub_path_is_kept_if_capture_path_is_unknown():
    pod = make_pod(mount("/tmp/vllm", subPath="vllm", readOnly=True))
    assert mounts(changed(pod, make_cache())) == [("/tmp/vllm", "vllm")]
