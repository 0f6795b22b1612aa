"""`manifest.json`, as MCV writes it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from kernel_cache_trees import (
    AOT_HASH,
    KERNEL_HASH,
    VLLM_HASH,
    cuda_kernel,
    habana,
    triton_kernel,
    vllm_binary,
    vllm_bundle,
    vllm_triton,
)

from accelkit.kernelcache.formats import read_cache, write_manifest


def _written(folder: Path, **options) -> dict[str, Any]:
    return json.loads(write_manifest(read_cache(folder, cpu_architecture="amd64", **options)))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _dummy_key(triton_key: str, target: str, options: str) -> str:
    parts = [_sha256(part) for part in ("dummy_source_content", target, options, "{}")]
    return _sha256("-".join([triton_key, *parts]))


def test_kernel_is_written_without_fields_that_mcv_omits(tmp_path: Path) -> None:
    options = '{"debug":false,"num_stages":2,"num_warps":4,"ptx":0}'
    assert _written(triton_kernel(tmp_path)) == {
        "triton": [
            {
                "hash": KERNEL_HASH,
                "dummy_key": _dummy_key("unknown-triton-key", "hip-gfx90a-64", options),
                "num_stages": 2,
                "num_warps": 4,
                "backend": "hip",
                "arch": "gfx90a",
                "warp_size": 64,
            }
        ]
    }


def test_dummy_key_depends_on_triton_key(tmp_path: Path) -> None:
    (kernel,) = _written(cuda_kernel(tmp_path, ptx_version=84, debug=True), triton_key="3.2.0-abc")["triton"]
    options = '{"debug":true,"num_stages":2,"num_warps":4,"ptx":84}'
    assert kernel["dummy_key"] == _dummy_key("3.2.0-abc", "cuda-75-32", options)
    assert (kernel["ptx_version"], kernel["debug"], kernel["arch"]) == (84, True, "75")


def test_kernels_of_vllm_cache_are_nested_in_hash_entry(tmp_path: Path) -> None:
    (entry,) = _written(vllm_triton(tmp_path))["vllm"]
    assert (entry["vllmHash"], entry["cacheFormat"]) == (VLLM_HASH, "triton")
    assert [kernel["hash"] for kernel in entry["triton"]] == [KERNEL_HASH]
    assert not {"binary", "aot_compile"} & entry.keys()


def test_compiled_artifacts_are_written_with_key_factors(tmp_path: Path) -> None:
    (entry,) = _written(vllm_binary(tmp_path))["vllm"]
    assert entry["binary"] == [
        {
            "rank": "rank_0_0",
            "prefix": "backbone",
            "artifact_count": 2,
            "artifact_names": [f"artifact_compile_range_1_2048_subgraph_{number}" for number in range(2)],
            "code_hash": "a3c7",
            "config_hash": "2a3882727d",
            "compiler_hash": "4fc2f2ae9e",
            "cache_save_format": "binary",
            "target_device": "cuda",
            "env": {"VLLM_TARGET_DEVICE": "cuda", "VLLM_MAIN_CUDA_VERSION": "12.9"},
        }
    ]


def test_model_bundle_is_written_as_mega_aot(tmp_path: Path) -> None:
    (entry,) = _written(vllm_bundle(tmp_path))["vllm"]
    assert entry == {
        "vllmHash": AOT_HASH,
        "cacheFormat": "binary",
        "binary": [
            {
                "rank": "rank_0_0",
                "prefix": "",
                "artifact_count": 1,
                "artifact_names": ["model"],
                "cache_save_format": "mega-aot",
            }
        ],
    }


def test_recipe_is_written_with_recipe_and_metadata_sizes(tmp_path: Path) -> None:
    first = _written(habana(tmp_path))["habana"][0]
    assert first == {
        "graphHash": "1234",
        "deviceId": "abcdef",
        "synapseVersion": "1.18.0",
        "recipeSize": 6,
        "metadataSize": 2,
    }
