"""The caches in the images of the examples: those that their frameworks wrote, or small ones of the same form.

`ACCELKIT_VECTORS` names the folder in which `caches/vector-add-cache`, `caches/vector-add-cache-rocm` and
`caches/vllm-cache` lie. Those that it does not have are made, for the same targets, with kernels that no card could
run; `describe_origins` says which.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

# Of the caches that the frameworks wrote, and of the cards that kind's nodes have in tests.
TARGETS = {"cuda": ("cuda", 75, 32), "rocm": ("hip", "gfx90a", 64)}
FOLDERS = {"vector-add-cache-cuda": "vector-add-cache", "vector-add-cache-rocm": "vector-add-cache-rocm"}
VLLM = "vllm-cache"
_FILES = {"cuda": ("ttir", "ttgir", "llir", "ptx", "cubin"), "rocm": ("ttir", "ttgir", "llir", "amdgcn", "hsaco")}
_KERNEL_BYTES = 4096
# Where vLLM's own image keeps it.
_VLLM_ROOT = "/home/vllm/.cache/vllm"


@dataclass(frozen=True)
class CacheFolder:
    """A cache, as its framework leaves it.

    Attributes:
        name: the tag of its image, without the signature's format.
        path: its root.
        real: whether a framework wrote it.
    """

    name: str
    path: Path
    real: bool


def find_caches(work: Path) -> list[CacheFolder]:
    """Return the caches of all example images; those that are not given are made below a folder."""
    vectors = os.environ.get("ACCELKIT_VECTORS")
    given = Path(vectors) / "caches" if vectors else None
    found = []
    for name, folder in {**FOLDERS, VLLM: VLLM}.items():
        if given is not None and (given / folder).is_dir():
            found.append(CacheFolder(name, given / folder, real=True))
            continue
        path = work / "caches" / folder
        if name == VLLM:
            write_vllm(path)
        else:
            write_triton(path, name.rpartition("-")[2])
        found.append(CacheFolder(name, path, real=False))
    return found


def describe_origins(caches: list[CacheFolder]) -> str:
    """Return the sentence that lists the caches that frameworks wrote, and those that were built here."""
    real = ", ".join(each.name for each in caches if each.real)
    made = ", ".join(each.name for each in caches if not each.real)
    origins = [f"written by their frameworks: {real}"] if real else []
    if made:
        origins.append(
            f"made here, with kernels that no card could run: {made} (ACCELKIT_VECTORS names the folder of others)"
        )
    return "; ".join(origins)


def write_triton(folder: Path, gpu: str, *, kernel: str = "add_kernel", built_at: str = "/build/cache") -> None:
    """Write one kernel as Triton does.

    Args:
        folder: the root of the cache, which is made.
        gpu: `cuda` or `rocm`.
        kernel: its name.
        built_at: where the cache was while it was filled; group files name their kernels there.
    """
    digest = hashlib.sha256(f"{gpu}\n{kernel}".encode()).digest()
    key = base64.b32encode(digest).decode().rstrip("=")
    (folder / key).mkdir(parents=True, exist_ok=True)
    backend, arch, warp = TARGETS[gpu]
    names = [f"{kernel}.{suffix}" for suffix in _FILES[gpu]]
    for name in names:
        content = hashlib.shake_128(f"{gpu}\n{name}".encode()).digest(_KERNEL_BYTES)
        (folder / key / name).write_bytes(content)
    metadata = {
        "hash": digest.hex(),
        "target": {"backend": backend, "arch": arch, "warp_size": warp},
        "num_warps": 4,
        "num_stages": 3,
        "triton_version": "3.2.0",
        "name": kernel,
    }
    (folder / key / f"{kernel}.json").write_text(json.dumps(metadata))
    paths = {name: f"{built_at}/{key}/{name}" for name in (*names, f"{kernel}.json")}
    (folder / key / f"__grp__{kernel}.json").write_text(json.dumps({"child_paths": paths}))


def write_vllm(folder: Path) -> None:
    """Write what vLLM leaves of one model, with one kernel of Triton's in it."""
    rank = folder / "torch_compile_cache" / "0123456789" / "rank_0_0"
    kernels = rank / "triton_cache"
    seen = f"{_VLLM_ROOT}/{kernels.relative_to(folder)}"
    write_triton(kernels, "rocm", kernel="triton_poi_fused_cat_0", built_at=seen)
    (rank / "inductor_cache" / "fxgraph").mkdir(parents=True)
    (rank / "inductor_cache" / "fxgraph" / "graph").write_bytes(b"graph")
    for name in ("computation_graph.py", "transformed_code.py", "inductor_cache/piece.py"):
        (rank / name).write_text("# compiled\n")
    piece = f"{_VLLM_ROOT}/{rank.relative_to(folder)}/inductor_cache/piece.py"
    (rank / "vllm_compile_cache.py").write_text(f"{{(None, 0, 'inductor'): ('piece', '{piece}')}}\n")
