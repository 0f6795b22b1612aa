"""What vLLM recorded of its variables is in the image's label, and in the record of a cache without such a label."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kernel_cache_trees import VLLM_HASH, cuda_kernel, vllm_binary, write

from accelkit.errors import CacheError
from accelkit.kernelcache.formats import read_cache, read_labels, write_labels
from accelkit.kernelcache.formats.recorded import (
    MAX_FACTORS_BYTES,
    MAX_REPORTED_BYTES,
    bound_texts,
    read_variables,
    write_texts,
)

LABEL = "accelkit.io/cache-variables"
KNOWN = {
    "VLLM_USE_V1": True,
    "VLLM_PP_LAYER_PARTITION": None,
    "VLLM_ATTENTION_BACKEND": "FLASH_ATTN",
    "VLLM_FUSED_MOE_CHUNK_SIZE": 65536,
}
FACTORS = "cache_key_factors.json"


def label(folder: Path) -> dict:
    written = write_labels(read_cache(folder, cpu_architecture="amd64"), title="t")
    return json.loads(written.get(LABEL, "{}"))


def own(variables: dict) -> dict:
    """Without what every cache of the tests records."""
    return {name: value for name, value in variables.items() if name in KNOWN}


def test_label_contains_recorded_variables_without_secrets_and_paths(tmp_path: Path) -> None:
    hidden = {"VLLM_API_KEY": "s3cret", "VLLM_ASSETS_CACHE": "/root/.cache", "HOME": "x", "VLLM_PLUGINS": ["a"]}
    vllm_binary(tmp_path, **KNOWN, **hidden)
    assert label(tmp_path) == {**KNOWN, "VLLM_TARGET_DEVICE": "cuda", "VLLM_MAIN_CUDA_VERSION": "12.9"}
    read = read_labels(write_labels(read_cache(tmp_path, cpu_architecture="amd64"), title="t"))
    assert read.variables == read_variables(tmp_path) == label(tmp_path)


def test_variables_that_differ_between_artifacts_are_omitted(tmp_path: Path) -> None:
    vllm_binary(tmp_path, rank="rank_0_0_dev0", **KNOWN)
    vllm_binary(tmp_path, rank="rank_1_0", **{**KNOWN, "VLLM_USE_V1": False, "VLLM_ATTENTION_BACKEND": "TRITON"})
    wanted = {name: KNOWN[name] for name in ("VLLM_PP_LAYER_PARTITION", "VLLM_FUSED_MOE_CHUNK_SIZE")}
    assert own(label(tmp_path)) == own(read_variables(tmp_path)) == wanted


def test_cache_without_recorded_variables_has_no_label(tmp_path: Path) -> None:
    cuda_kernel(tmp_path)
    assert label(tmp_path) == read_variables(tmp_path) == {}


@pytest.mark.parametrize("damage", [b"", b"[]", b"\xff", b"[" * 5000, b" " * (MAX_FACTORS_BYTES + 1)])
def test_unreadable_factor_files_are_ignored(tmp_path: Path, damage: bytes) -> None:
    vllm_binary(tmp_path, **KNOWN)
    write(tmp_path / "torch_compile_cache" / VLLM_HASH / "rank_1_0" / "backbone" / FACTORS, damage)
    assert own(read_variables(tmp_path)) == KNOWN


def test_variables_are_written_as_environment_values() -> None:
    assert write_texts(KNOWN) == {
        "VLLM_USE_V1": "1",
        "VLLM_PP_LAYER_PARTITION": "",
        "VLLM_ATTENTION_BACKEND": "FLASH_ATTN",
        "VLLM_FUSED_MOE_CHUNK_SIZE": "65536",
    }


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        "[" * 5000,
        '{"LD_PRELOAD": "x"}',
        '{"VLLM_": 1}',
        '{"VLLM_A\\n": 1}',
        '{"VLLM_A": ["x"]}',
        json.dumps({f"VLLM_{number}": 1 for number in range(513)}),
    ],
)
def test_invalid_variables_label_is_rejected(text: str) -> None:
    with pytest.raises(CacheError, match=f"label {LABEL}"):
        read_labels({"io.kserve.km/cache-type": "torch-compile", LABEL: text})


def test_bound_texts_limits_bytes_and_drops_invalid_variables():
    many = {f"VLLM_{number:03}": "x" * 250 for number in range(100)}
    kept = bound_texts({**many, "HOME": "/", "VLLM_A": "[redacted]"})
    assert list(kept) == sorted(many)[: len(kept)]
    assert 50 < len(kept) < 100
    assert sum(len(name) + len(value) for name, value in kept.items()) <= MAX_REPORTED_BYTES
