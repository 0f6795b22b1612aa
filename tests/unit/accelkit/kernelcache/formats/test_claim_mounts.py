"""Mounts of a claim: the root whole, split trees at their own paths, each with its variable."""

from __future__ import annotations

import json

import pytest

from accelkit.errors import CacheError
from accelkit.kernelcache.formats import ImageLabels, read_labels
from accelkit.kernelcache.formats.mounts import (
    ClaimMount,
    find_capture_path,
    list_mounts,
    list_trees,
    list_variables,
    translate_sub_path,
)
from accelkit.kernelcache.formats.relocation.moved_tree import MovedTree

VLLM = {
    "io.kserve.km/cache-type": "torch-compile",
    "io.kserve.km/cache-mount-subpath": "torch_compile_cache",
    "io.kserve.km/cache-root-env": "VLLM_CACHE_ROOT=/tmp/vllm",
}
# As MCV writes them for the five kinds of trees that it captures beside the root.
TREES = [
    {"subPath": "triton", "absPath": "/tmp/triton", "env": "TRITON_CACHE_DIR", "requiresWritable": True},
    {"subPath": "torchinductor_root", "absPath": "/tmp/torchinductor_root", "env": "TORCHINDUCTOR_CACHE_DIR"},
    {"subPath": "deep_gemm", "absPath": "/root/.deep_gemm", "env": "DG_JIT_CACHE_DIR", "requiresWritable": True},
    {"subPath": "flashinfer", "absPath": "/root/.cache/flashinfer", "requiresWritable": True},
    {"subPath": "tuning", "absPath": "/opt/tuning", "requiresWritable": True},
]


def split(*trees: dict) -> dict[str, str]:
    return {
        **VLLM,
        "io.kserve.km/cache-mounts": json.dumps(trees),
        "io.kserve.km/split-cache-capture": "true",
    }


def test_vllm_root_is_mounted_at_requested_path() -> None:
    labels = read_labels(VLLM)
    assert find_capture_path(labels) == "/tmp/vllm"
    assert list_mounts(labels, "/home/vllm/.cache/vllm") == (
        ClaimMount("", "/home/vllm/.cache/vllm", "VLLM_CACHE_ROOT", "/home/vllm/.cache/vllm"),
    )


def test_each_tree_of_split_capture_has_path_and_variable() -> None:
    mounts = list_mounts(read_labels(split(*TREES)), "/cache")
    assert [(each.sub_path, each.variable, each.path) for each in mounts] == [
        ("", "VLLM_CACHE_ROOT", "/cache"),
        ("triton", "TRITON_CACHE_DIR", "/tmp/triton"),
        ("torchinductor_root", "TORCHINDUCTOR_CACHE_DIR", "/tmp/torchinductor_root"),
        ("deep_gemm", "DG_JIT_CACHE_DIR", "/root/.deep_gemm"),
        ("flashinfer", "", "/root/.cache/flashinfer"),
        ("tuning", "", "/opt/tuning"),
    ]
    assert [each.writable for each in mounts] == [False, True, False, True, True, True]
    assert [each.value for each in mounts] == ["/cache", *(each.path if each.variable else "" for each in mounts[1:])]


def test_triton_cache_dir_is_set_within_vllm_root() -> None:
    assert list_variables(read_labels(VLLM), "/cache") == {
        "VLLM_CACHE_ROOT": "/cache",
        "TRITON_CACHE_DIR": "/cache/triton",
    }


def test_triton_cache_dir_is_path_of_captured_triton_tree() -> None:
    variables = list_variables(read_labels(split(*TREES)), "/cache")
    assert variables["TRITON_CACHE_DIR"] == "/tmp/triton"
    assert [name for name in variables if name.startswith("VLLM_")] == ["VLLM_CACHE_ROOT"]


def test_triton_cache_has_one_mount_and_one_variable() -> None:
    labels = read_labels({"cache.triton.image/summary": '{"targets":[]}'})
    assert find_capture_path(labels) is None
    assert list_mounts(labels, "/cache") == (ClaimMount("", "/cache", "TRITON_CACHE_DIR", "/cache"),)


@pytest.mark.parametrize(
    ("label", "value", "path"),
    [
        ({}, "/cache,false,8192", None),
        (
            {"io.kserve.km/cache-root-env": "PT_HPU_RECIPE_CACHE_CONFIG=/data/recipes,true,4096"},
            "/cache,true,4096",
            "/data/recipes",
        ),
    ],
)
def test_habana_settings_are_kept_when_path_changes(label: dict[str, str], value: str, path: str | None) -> None:
    labels = read_labels({"io.kserve.km/cache-type": "habana-recipe", **label})
    assert find_capture_path(labels) == path
    assert list_mounts(labels, "/cache") == (
        ClaimMount("", "/cache", "PT_HPU_RECIPE_CACHE_CONFIG", value, writable=True),
    )


def test_unknown_format_is_mounted_without_variable() -> None:
    labels = read_labels({"io.kserve.km/cache-type": "jax-persistent"})
    assert list_mounts(labels, "/cache") == (ClaimMount("", "/cache"),)
    assert list_variables(labels, "/cache") == {}


@pytest.mark.parametrize(
    ("within", "seen"),
    [
        ("", "/cache"),
        ("torch_compile_cache/x", "/cache/torch_compile_cache/x"),
        ("triton", "/tmp/triton"),
        ("triton/K", "/tmp/triton/K"),
        ("tritons/K", "/cache/tritons/K"),
        ("flashinfer/0.2/cached_ops", "/root/.cache/flashinfer/0.2/cached_ops"),
    ],
)
def test_file_path_is_resolved_within_mounted_tree(within: str, seen: str) -> None:
    assert moved_tree(read_labels(split(*TREES)), "/cache").find_path(within) == seen


def moved_tree(labels: ImageLabels, mount_path: str) -> MovedTree:
    return MovedTree(mount_path, {tree.sub_path: path for tree, path in list_trees(labels, mount_path)})


@pytest.mark.parametrize("path", ["/tmp/vllm", "/tmp/triton"])
def test_two_trees_at_one_path_are_rejected(path: str) -> None:
    second = {"subPath": "second", "absPath": path}
    with pytest.raises(CacheError, match="several folders at"):
        read_labels(split(TREES[0], second))


def test_tree_within_root_moves_with_root() -> None:
    labels = read_labels(split({"subPath": "triton", "absPath": "/tmp/vllm/triton", "env": "TRITON_CACHE_DIR"}))
    assert list_mounts(labels, "/cache")[1] == ClaimMount(
        "triton", "/cache/triton", "TRITON_CACHE_DIR", "/cache/triton"
    )
    assert moved_tree(labels, "/cache").find_path("triton/K") == "/cache/triton/K"
    beside = read_labels(split({"subPath": "triton", "absPath": "/tmp/vllm2/triton"}))
    assert list_mounts(beside, "/cache")[1].path == "/tmp/vllm2/triton"


@pytest.mark.parametrize(
    ("written", "capture_path", "meant"),
    [
        ("vllm", "/root/.cache/vllm", ""),
        ("vllm/torch_compile_cache", "/root/.cache/vllm", "torch_compile_cache"),
        ("/vllm/torch_compile_cache/", "/root/.cache/vllm", "torch_compile_cache"),
        ("torch_compile_cache", "/root/.cache/vllm", "torch_compile_cache"),
        ("triton", "/root/.cache/vllm", "triton"),
        ("", "/root/.cache/vllm", ""),
        ("vllm", "", "vllm"),
        ("triton/K", "/root/triton", "triton/K"),
        ("torch_compile_cache/x", "/data/torch_compile_cache", "torch_compile_cache/x"),
    ],
)
def test_sub_paths_of_both_layouts_resolve_to_same_files(written: str, capture_path: str, meant: str) -> None:
    assert translate_sub_path(written, capture_path, ["triton", "deep_gemm"]) == meant
