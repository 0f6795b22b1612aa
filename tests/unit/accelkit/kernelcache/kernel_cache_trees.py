"""Cache folders as the frameworks write them, small."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

TRITON_KEY = "MCELTMXFCSPAMZYLZ3C3WPPYYVTVR4QOYNE52X3X6FIH7Z6N6X5A"
KERNEL_HASH = "6088b9b2e5149e06670bcec5bb3df8c56758f20ec349dd5f77f1507fe7cdf5fa"
VLLM_HASH = "edf531ca35"
AOT_HASH = "d5313e9d59c8842ac8d3b743f0c1c018ea9b101c4f9ae1134b8c85e61557f070"


def write(path: Path, content: str | bytes | dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, dict):
        content = json.dumps(content)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def triton_kernel(folder: Path, *, key: str = TRITON_KEY, name: str = "add_kernel", **changes: Any) -> Path:
    """Write one kernel for an MI210, and return its folder."""
    metadata = {
        "hash": KERNEL_HASH,
        "target": {"backend": "hip", "arch": "gfx90a", "warp_size": 64},
        "num_warps": 4,
        "num_stages": 2,
        "debug": False,
        "triton_version": "3.2.0",
        "name": name,
        **changes,
    }
    write(folder / key / f"{name}.json", metadata)
    write(folder / key / f"{name}.ttir", "module {}")
    write(folder / key / f"__grp__{name}.json", {"child_paths": {f"{name}.ttir": f"/build/{key}/{name}.ttir"}})
    return folder


def cuda_kernel(folder: Path, **changes: Any) -> Path:
    return triton_kernel(folder, target={"backend": "cuda", "arch": 75, "warp_size": 32}, **changes)


def vllm_triton(folder: Path) -> Path:
    triton_kernel(folder / "torch_compile_cache" / VLLM_HASH / "rank_0_0" / "triton_cache")
    return folder


def vllm_binary(folder: Path, *, rank: str = "rank_0_0", unpacked: bool = False, **environment: Any) -> Path:
    part = folder / "torch_compile_cache" / VLLM_HASH / rank / "backbone"
    factors = {
        "code_hash": "a3c7",
        "compiler_hash": "4fc2f2ae9e",
        "config_hash": "2a3882727d",
        "env": {"VLLM_TARGET_DEVICE": "cuda", "VLLM_MAIN_CUDA_VERSION": "12.9", **environment},
    }
    write(part / "cache_key_factors.json", factors)
    write(part / "computation_graph.py", "graph")
    for number in range(2):
        artifact = part / f"artifact_compile_range_1_2048_subgraph_{number}"
        write(artifact / "piece" if unpacked else artifact, b"\x7fELF")
    return folder


def vllm_bundle(folder: Path, *, as_folder: bool = False) -> Path:
    model = folder / "torch_compile_cache" / "torch_aot_compile" / AOT_HASH / "rank_0_0" / "model"
    write(model / "weights" if as_folder else model, b"bundle")
    return folder


def habana(folder: Path) -> Path:
    write(folder / "1234_abcdef_syn1.18.0.recipe", b"recipe")
    write(folder / "1234_abcdef_syn1.18.0.metadata", b"md")
    write(folder / "99_abcdef_syn1.18.0.recipe", b"second")
    return folder


def real_cache(name: str) -> Path:
    """Return the folder of a cache that a framework wrote, or skip."""
    root = os.environ.get("ACCELKIT_VECTORS")
    if not root:
        pytest.skip("caches of others are read from ACCELKIT_VECTORS, which is not set")
    return Path(root) / "caches" / name
